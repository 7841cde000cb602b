package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// written is one change as the writers know it: with its revision, and in the form of an event.
type written struct {
	rev        store.Revision
	key        string
	value, old string
	kind       watchcache.EventType
}

// record is everything that was written, by revision.
type record struct {
	mu      sync.Mutex
	changes []written
}

func (r *record) add(w written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, w)
}

// settle computes the type of each event.
func (r *record) settle() {
	sort.Slice(r.changes, func(i, j int) bool { return r.changes[i].rev < r.changes[j].rev })
	state := map[string]string{}
	for i := range r.changes {
		c := &r.changes[i]
		c.old = state[c.key]
		switch {
		case c.value == "":
			c.kind, c.value = watchcache.Deleted, c.old
			delete(state, c.key)
			continue
		case c.old != "":
			c.kind = watchcache.Modified
		}
		state[c.key] = c.value
	}
}

func (w written) String() string {
	return fmt.Sprintf("%d %v %s %q was %q", w.rev, w.kind, w.key, w.value, w.old)
}

// concerns says whether a change matches a topic. It is independent of the code under test.
func (w written) concerns(prefix, topic string) bool {
	if !strings.HasPrefix(w.key, prefix) {
		return false
	}
	class, want, _ := strings.Cut(topic, ":")
	for _, value := range []string{w.value, w.old} {
		if value == "" {
			continue
		}
		is := ""
		switch class {
		case "all":
			return true
		case "key":
			is = w.key
		case "namespace":
			is, _, _ = strings.Cut(strings.TrimPrefix(w.key, prefix), "/")
		case "node":
			is = strings.Split(value, "|")[1]
		case "phase":
			is = strings.Split(value, "|")[2]
		}
		if is == want {
			return true
		}
	}
	return false
}

// state returns the objects at a revision.
func (r *record) state(prefix string, at store.Revision) (lines []string) {
	values := map[string]string{}
	for _, c := range r.changes {
		if c.rev > at {
			break
		}
		if c.kind == watchcache.Deleted {
			delete(values, c.key)
		} else if strings.HasPrefix(c.key, prefix) {
			values[c.key] = fmt.Sprintf("%d %s %s", c.rev, c.key, c.value)
		}
	}
	for _, line := range values {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// seen is one step of a transcript: an event or, if there is none, a bookmark.
type seen struct {
	bookmark store.Revision
	event    *watchcache.Event
}

// transcript is everything that one watch received, over any number of cursors that continue each other.
type transcript struct {
	prefix, topic string
	from          store.Revision
	steps         []seen
}

// judge checks a transcript against each guarantee by name.
func (tr transcript) judge(r *record) error {
	var floor, last store.Revision
	var got []string
	floor = tr.from
	unique := map[string]bool{}
	for _, s := range tr.steps {
		if s.event == nil {
			if s.bookmark < floor {
				return fmt.Errorf("Bookmarkable: bookmark %d after %d", s.bookmark, floor)
			}
			floor = s.bookmark
			continue
		}
		e := s.event
		line := written{rev: e.Revision, kind: e.Type, key: e.Object.Key, value: string(e.Object.Value())}
		if e.Previous != nil {
			line.old = string(e.Previous.Value())
		}
		switch {
		case e.Revision < last:
			return fmt.Errorf("Ordered: %d after %d", e.Revision, last)
		case e.Revision <= floor:
			return fmt.Errorf("Bookmarkable: %d after bookmark %d", e.Revision, floor)
		case unique[line.String()]:
			return fmt.Errorf("Unique: %s came twice", line)
		}
		last = e.Revision
		unique[line.String()] = true
		got = append(got, line.String())
	}
	var want []string
	for _, c := range r.changes {
		if c.rev > tr.from && c.rev <= max(last, floor) && c.concerns(tr.prefix, tr.topic) {
			want = append(want, c.String())
		}
	}
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got) || i < len(want) && !slices.Contains(got, want[i]):
			return fmt.Errorf("Reliable: %s is missing", want[i])
		case i >= len(want) || got[i] != want[i]:
			return fmt.Errorf("Filterable: %s was not to come", got[i])
		}
	}
	return nil
}

// chaos runs a world with random operations and faults.
type chaos struct {
	*world
	seed    uint64
	until   time.Time
	record  record
	widgets struct {
		sync.Mutex
		kind *watchcache.Kind
	}

	mu          sync.Mutex
	transcripts []transcript
	snapshots   []watchcache.Snapshot
	prefixes    []string
	expired     int
	refilled    int
}

func TestRandomWorldKeepsEveryGuarantee(t *testing.T) {
	seed := randomly.Seed(t)
	o := watchcache.Options{WindowEvents: 300, PageSize: 7, Backoff: func(int) time.Duration { return 3 * time.Millisecond }}
	run(t, o, func(w *world) {
		c := &chaos{world: w, seed: seed, until: time.Now().Add(10 * time.Second)}
		c.widgets.kind = w.add(widgets)
		nodeKind := w.add(nodes)
		for i := range 4 {
			c.do(i, c.write)
		}
		for i := range 16 {
			c.do(10+i, func(r *rand.Rand) { c.follow(r, c.pick(r, nodeKind)) })
		}
		for i := range 2 {
			c.do(30+i, func(r *rand.Rand) { c.look(r, c.pick(r, nodeKind)) })
		}
		c.do(40, c.harm)
		c.do(41, c.replaceWidgets)
		time.Sleep(11 * time.Second)
		w.settle()
		w.end()
		c.judge()
	})
}

func (c *chaos) do(id int, step func(*rand.Rand)) {
	r := rand.New(rand.NewPCG(c.seed, uint64(id)))
	c.ended.Go(func() {
		for time.Now().Before(c.until) {
			step(r)
		}
	})
}

func (c *chaos) pick(r *rand.Rand, nodeKind *watchcache.Kind) *watchcache.Kind {
	switch r.IntN(4) {
	case 0:
		return nodeKind
	case 1:
		c.widgets.Lock()
		defer c.widgets.Unlock()
		return c.widgets.kind
	default:
		return c.pods
	}
}

func pause(r *rand.Rand, most time.Duration) { time.Sleep(time.Duration(r.Int64N(int64(most)))) }

func (c *chaos) write(r *rand.Rand) {
	pause(r, 5*time.Millisecond)
	key := fmt.Sprintf("%s%c/x%d", []string{pods, pods, widgets}[r.IntN(3)], 'a'+rune(r.IntN(3)), r.IntN(8))
	if r.IntN(5) == 0 {
		key = fmt.Sprintf("%sn%d", nodes, r.IntN(8))
	}
	value := fmt.Sprintf("app=%d|n%d|p%d|%d", r.IntN(3), r.IntN(4), r.IntN(2), r.Uint64())
	ctx := context.Background()
	e, err := c.store.Get(ctx, key, store.GetOptions{})
	var rev store.Revision
	switch {
	case errors.Is(err, store.ErrNotFound):
		rev, err = c.store.Create(ctx, key, []byte(value), 0)
	case err == nil && r.IntN(4) == 0:
		value = ""
		rev, err = c.store.Delete(ctx, key, e.Revision)
	case err == nil:
		rev, err = c.store.Update(ctx, key, []byte(value), e.Revision, 0)
	}
	if err == nil {
		c.record.add(written{rev: rev, key: key, value: value})
	}
}

// follow is one watch, which continues after an interruption if it can.
func (c *chaos) follow(r *rand.Rand, k *watchcache.Kind) {
	prefix := k.Options().Prefix
	spec, topic := randomTopic(r, prefix)
	tr := transcript{prefix: prefix, topic: spec}
	var cur *watchcache.Cursor
	var err error
	if r.IntN(2) == 0 {
		var s watchcache.Snapshot
		s, cur, err = k.WatchFromNow(topic)
		if err == nil {
			tr.from = s.Revision()
			c.keep(prefix, s)
		}
	} else {
		tr.from = max(1, c.cache.Revision()-store.Revision(r.IntN(200))+5)
		cur, err = k.Watch(tr.from, topic)
	}
	next := tr.from
	for legs := r.IntN(3); err == nil; legs-- {
		last, end := c.leg(r, cur, &tr)
		if legs <= 0 || end != nil {
			break
		}
		next = max(next, last)
		cur, err = k.Watch(next, topic)
	}
	c.mu.Lock()
	c.transcripts = append(c.transcripts, tr)
	c.mu.Unlock()
	pause(r, 3*time.Millisecond)
}

// leg reads from one cursor for a while and returns where the next one may begin.
func (c *chaos) leg(r *rand.Rand, cur *watchcache.Cursor, tr *transcript) (last store.Revision, err error) {
	defer cur.Close()
	slow := time.Duration(0)
	if r.IntN(3) == 0 {
		slow = 300 * time.Millisecond
	}
	for range r.IntN(200) {
		e, ok, err := cur.Next()
		switch {
		case err != nil:
			c.mu.Lock()
			defer c.mu.Unlock()
			if errors.Is(err, watchcache.ErrExpired) {
				c.expired++
			} else if errors.Is(err, watchcache.ErrRefilled) {
				c.refilled++
			}
			return last, err
		case ok:
			tr.steps = append(tr.steps, seen{event: e})
			last = e.Revision
		default:
			select {
			case <-cur.Wake():
			case <-time.After(20 * time.Millisecond):
			}
		}
		if r.IntN(5) == 0 {
			last = max(last, cur.Revision())
			tr.steps = append(tr.steps, seen{bookmark: cur.Revision()})
		}
		if slow > 0 && r.IntN(20) == 0 {
			pause(r, slow)
		}
	}
	return last, nil
}

func randomTopic(r *rand.Rand, prefix string) (string, watchcache.Topic) {
	switch r.IntN(5) {
	case 0:
		ns := string('a' + rune(r.IntN(3)))
		if prefix == nodes {
			ns = ""
			return "all:", watchcache.Namespace(ns) // nodes have no namespace
		}
		return "namespace:" + ns, watchcache.Namespace(ns)
	case 1:
		key := fmt.Sprintf("%sa/x%d", prefix, r.IntN(8))
		return "key:" + key, watchcache.Key(key)
	case 2:
		node := fmt.Sprintf("n%d", r.IntN(4))
		return "node:" + node, watchcache.Field(fieldNode, node)
	case 3:
		return "phase:p1", watchcache.Field(fieldPhase, "p1")
	default:
		return "all:", watchcache.All()
	}
}

// look reads current and past states.
func (c *chaos) look(r *rand.Rand, k *watchcache.Kind) {
	pause(r, 10*time.Millisecond)
	prefix := k.Options().Prefix
	if s := k.Snapshot(); k.Ready() && s.Revision() > 0 {
		c.keep(prefix, s)
	}
	if s, err := k.SnapshotAt(max(1, c.cache.Revision()-store.Revision(r.IntN(300)))); err == nil {
		c.keep(prefix, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	rev, err := c.store.Create(ctx, fmt.Sprintf("/registry/others/x%d", r.Uint64()), []byte("|||"), 0)
	if err != nil {
		return
	}
	if fresh, err := c.cache.Fresh(ctx); err == nil && (fresh < rev || c.pods.Snapshot().Revision() < rev) {
		c.Errorf("Linearizable: %d was acknowledged, fresh is %d, snapshot %d", rev, fresh, c.pods.Snapshot().Revision())
	}
}

func (c *chaos) keep(prefix string, s watchcache.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshots = append(c.snapshots, s)
	c.prefixes = append(c.prefixes, prefix)
}

// harm injects a random fault into the store.
func (c *chaos) harm(r *rand.Rand) {
	pause(r, 300*time.Millisecond)
	switch r.IntN(4) {
	case 0:
		c.store.Cut(store.ErrUnavailable)
	case 1:
		up := c.store.Down()
		c.store.Cut(store.ErrClosed)
		pause(r, 100*time.Millisecond)
		up()
	case 2:
		release := c.store.Hold()
		pause(r, 100*time.Millisecond)
		release()
	case 3: // the log cannot be resumed
		release := c.store.Hold()
		pause(r, 50*time.Millisecond)
		if rev, err := c.store.Revision(context.Background()); err == nil {
			c.store.Compact(context.Background(), rev)
		}
		c.store.Cut(store.ErrUnavailable)
		release()
	}
}

func (c *chaos) replaceWidgets(r *rand.Rand) {
	pause(r, time.Second)
	c.widgets.Lock()
	defer c.widgets.Unlock()
	c.cache.Remove(c.widgets.kind)
	c.widgets.kind = c.add(widgets)
}

func (c *chaos) judge() {
	c.record.settle()
	events, bookmarks := 0, 0
	for _, tr := range c.transcripts {
		if err := tr.judge(&c.record); err != nil {
			c.Errorf("%s %s after %d: %v", tr.prefix, tr.topic, tr.from, err)
		}
		for _, s := range tr.steps {
			if s.event != nil {
				events++
			} else {
				bookmarks++
			}
		}
	}
	for i, s := range c.snapshots {
		if i%10 > 0 && len(c.snapshots) > 1000 {
			continue // the model is slow
		}
		var got []string
		for o := range s.Range("", "") {
			got = append(got, fmt.Sprintf("%d %s %s", o.Revision, o.Key, o.Value()))
		}
		slices.Sort(got)
		if want := c.record.state(c.prefixes[i], s.Revision()); !slices.Equal(got, want) {
			c.Errorf("Snapshot: %s at %d is\n%q, want\n%q", c.prefixes[i], s.Revision(), got, want)
		}
	}
	s := c.cache.Stats()
	c.Logf("%d changes; %d watches with %d events and %d bookmarks, %d expired, %d refilled; %d snapshots; %d refills, %d resumes",
		len(c.record.changes), len(c.transcripts), events, bookmarks, c.expired, c.refilled, len(c.snapshots), s.Refills, s.Resumes)
	if events == 0 || s.Refills == 0 || s.Resumes == 0 || c.expired == 0 || c.refilled == 0 {
		c.Error("the test shows too little")
	}
}
