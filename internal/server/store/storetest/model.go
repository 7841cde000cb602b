package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/server/store"
)

var modelChecks = []check{
	{"random operations give the same results as a simple model", func(t *testing.T, s store.Store) {
		m := &model{t: t, s: s, random: seeded(t), start: mustRevision(t, s)}
		m.oldest = m.start
		m.now = make(map[string]store.Entry)
		m.states = map[store.Revision]map[string]string{m.start: {}}
		m.newest = m.start
		m.follower = watch(t, s, "/", m.start)
		for range 600 {
			m.step()
		}
		equalEvents(t, m.follower.upTo(m.newest), m.log)
	}},
}

// model is the simplest possible store: it keeps every state that there ever was.
type model struct {
	t      *testing.T
	s      store.Store
	random *rand.Rand

	start, oldest, newest store.Revision
	now                   map[string]store.Entry
	states                map[store.Revision]map[string]string
	log                   []store.Event
	// follower is a watch that runs all the time.
	follower *watching
}

func (m *model) step() {
	key := fmt.Sprintf("/%c/%d", 'a'+rune(m.random.IntN(3)), m.random.IntN(8))
	switch n := m.random.IntN(100); {
	case n < 30:
		m.create(key)
	case n < 60:
		m.update(key)
	case n < 75:
		m.delete(key)
	case n < 82:
		m.get(key)
	case n < 95:
		m.list()
	case n < 98:
		m.watch()
	default:
		m.compact()
	}
}

func (m *model) create(key string) {
	value := fmt.Sprint(m.random.Uint32())
	rev, err := m.s.Create(within(m.t), key, []byte(value), 0)
	if _, exists := m.now[key]; exists {
		m.expect(err, store.ErrExists, "create "+key)
		return
	}
	m.expect(err, nil, "create "+key)
	m.record(store.Event{Key: key, Value: []byte(value), Revision: rev})
}

func (m *model) update(key string) {
	value := fmt.Sprint(m.random.Uint32())
	old, expect, want := m.guess(key)
	rev, err := m.s.Update(within(m.t), key, []byte(value), expect, 0)
	m.expect(err, want, "update "+key)
	m.checkConflict(err, old)
	if err == nil {
		m.record(store.Event{Key: key, Value: []byte(value), Revision: rev})
	}
}

func (m *model) delete(key string) {
	old, expect, want := m.guess(key)
	rev, err := m.s.Delete(within(m.t), key, expect)
	m.expect(err, want, "delete "+key)
	m.checkConflict(err, old)
	if err == nil {
		m.record(store.Event{Type: store.Delete, Key: key, Revision: rev})
	}
}

// guess returns the entry of a key, a revision to expect of it, mostly the right one, and the error that this must lead
// to.
func (m *model) guess(key string) (store.Entry, store.Revision, error) {
	old, exists := m.now[key]
	switch {
	case !exists:
		return old, m.newest, store.ErrNotFound
	case m.random.IntN(5) == 0:
		return old, old.Revision - 1, store.ErrConflict
	default:
		return old, old.Revision, nil
	}
}

func (m *model) get(key string) {
	got, err := m.s.Get(within(m.t), key, store.GetOptions{})
	want, exists := m.now[key]
	if !exists {
		m.expect(err, store.ErrNotFound, "get "+key)
		return
	}
	m.expect(err, nil, "get "+key)
	if !sameEntry(got, want) {
		m.t.Fatalf("get %s: %v, want %v", key, got, want)
	}
}

// list lists a prefix in pages, now or at a past revision.
func (m *model) list() {
	prefix := []string{"/", "/a/", "/b/", "/c/1"}[m.random.IntN(4)]
	o := store.ListOptions{Limit: m.random.IntN(6)}
	want := m.newest
	if m.random.IntN(2) == 0 {
		revs := slices.Sorted(maps.Keys(m.states))
		want = revs[m.random.IntN(len(revs))]
		o.Revision = want
	}
	var entries []store.Entry
	for {
		page, err := m.s.List(within(m.t), prefix, o)
		if want < m.oldest {
			m.expect(err, store.ErrCompacted, fmt.Sprintf("list %s at %d", prefix, want))
			return
		}
		m.expect(err, nil, fmt.Sprintf("list %s at %d", prefix, want))
		if page.Revision != want {
			m.t.Fatalf("list %s at %d shows %d", prefix, want, page.Revision)
		}
		entries = append(entries, page.Entries...)
		if !page.More {
			break
		}
		o.From, o.Revision = entries[len(entries)-1].Key+"\x00", want
	}
	expected := maps.Clone(m.states[want])
	maps.DeleteFunc(expected, func(key, _ string) bool { return !strings.HasPrefix(key, prefix) })
	if got := state(entries); !maps.Equal(got, expected) {
		m.t.Fatalf("Snapshot: list %s at %d shows %v, want %v", prefix, want, got, expected)
	}
}

// watch watches a prefix from some revision on, up to now.
func (m *model) watch() {
	prefix := []string{"/", "/a/", "/b/"}[m.random.IntN(3)]
	after := m.oldest + store.Revision(m.random.Int64N(int64(m.newest-m.oldest)+1))
	var want []store.Event
	for _, e := range m.log {
		if e.Revision > after && strings.HasPrefix(e.Key, prefix) {
			want = append(want, e)
		}
	}
	w := watch(m.t, m.s, prefix, after)
	equalEvents(m.t, w.upTo(m.newest), want)
	w.end()
}

func (m *model) compact() {
	at := m.newest - store.Revision(m.random.IntN(30))
	if at <= m.oldest {
		return
	}
	m.follower.upTo(m.newest) // so that the watch is not cut off
	m.expect(m.s.Compact(within(m.t), at), nil, fmt.Sprintf("compact at %d", at))
	m.oldest = at
}

func (m *model) record(e store.Event) {
	m.t.Helper()
	if e.Revision <= m.newest {
		m.t.Fatalf("Monotonic: revision %d after %d", e.Revision, m.newest)
	}
	now := maps.Clone(m.states[m.newest])
	if e.Type == store.Delete {
		delete(m.now, e.Key)
		delete(now, e.Key)
	} else {
		m.now[e.Key] = store.Entry{Key: e.Key, Value: e.Value, Revision: e.Revision}
		now[e.Key] = string(e.Value) + "@" + e.Revision.String()
	}
	m.newest = e.Revision
	m.states[e.Revision] = now
	m.log = append(m.log, e)
}

func (m *model) expect(err, want error, doing string) {
	m.t.Helper()
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		m.t.Fatalf("%s: %v, want %v", doing, err, want)
	}
}

func (m *model) checkConflict(err error, current store.Entry) {
	m.t.Helper()
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && !sameEntry(conflict.Current, current) {
		m.t.Fatalf("conflict shows %v, want %v", conflict.Current, current)
	}
}
