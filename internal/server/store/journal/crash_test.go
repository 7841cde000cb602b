package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// crasher works with a store on a disk that crashes, fails and fills up, and knows what must be there.
type crasher struct {
	t      *testing.T
	random *rand.Rand
	disk   *simDisk
	store  *Store

	history      History
	acknowledged map[string]store.Entry
	versions     []doubt // all changes that were acknowledged, or turned out to be there; the first has revision 2
	revision     store.Revision
	doubtful     []doubt // what is there wholly or not at all, after a crash

	snapshots, segments, crashes, refused int
	pasts, oldest                         int // how often the past was compared, and how many changes it had
	operations                            int // until something happens
	happens                               error
	busy                                  bool // whether something runs that may be interrupted by writes
}

// doubt is a change that was not acknowledged.
type doubt struct {
	store.Entry
	deleted bool
}

// TestNothingAcknowledgedIsLostWhereverTheMachineCrashes goes on with the same disk after each crash. Everything runs
// on one goroutine, so a seed repeats a run.
func TestNothingAcknowledgedIsLostWhereverTheMachineCrashes(t *testing.T) {
	t.Parallel()
	crashes := 2000
	if testing.Short() {
		crashes = 300
	}
	seed := randomly.Seed(t)
	var total crasher
	for round := uint64(0); total.crashes < crashes; round++ {
		c := &crasher{
			t: t, random: rand.New(rand.NewPCG(seed, round)), acknowledged: map[string]store.Entry{}, revision: 1,
			history: History{Age: time.Hour, Bytes: 1 << 40},
		}
		c.disk = newSimDisk(c.random)
		for range 30 {
			c.live()
			if c.random.IntN(10) == 0 {
				c.history = []History{{}, {Age: time.Hour, Bytes: 30_000}, {Age: time.Hour, Bytes: 1 << 40}}[c.random.IntN(3)]
			}
		}
		if t.Failed() {
			t.Fatalf("that was round %d", round)
		}
		total.crashes += c.crashes
		total.snapshots += c.snapshots
		total.segments += c.segments
		total.refused += c.refused
		total.pasts += c.pasts
		total.oldest += c.oldest
	}
	t.Logf("%d crashes, %d snapshots, %d segments, %d writes refused, %d pasts with %d changes", total.crashes, total.snapshots,
		total.segments, total.refused, total.pasts, total.oldest)
	if min(total.snapshots, total.segments, total.refused, total.pasts) < crashes/10 {
		t.Error("the test shows too little")
	}
}

// live is the time from a start of the machine to its crash.
func (c *crasher) live() {
	c.disk.before, c.busy = c.operation, false
	c.operations, c.happens = 1+c.random.IntN(600), errCrashed
	if c.random.IntN(4) == 0 {
		c.happens = syscall.EIO
	}
	c.disk.space, c.disk.sparse = -1, c.random.IntN(2) == 0
	s, err := open(Options{
		SegmentBytes: 4096, SnapshotBytes: 4_000, Memory: memory.Options{HistoryEvents: 3}, History: c.history,
	}, c.disk, io.NopCloser(nil))
	if err == nil {
		c.store = s
		s.codec.recordBytes = 1000 // so that a group has several
		c.check()
		for !c.t.Failed() && c.writable() {
			c.step()
		}
		_ = s.Close()
	} else if !errors.Is(err, c.happens) {
		c.t.Fatalf("after crash %d: %v", c.crashes, err)
	}
	c.crashes++
	c.disk = c.disk.crash()
}

// writable reports whether the store still takes writes.
func (c *crasher) writable() bool {
	err := c.store.Writable()
	return !c.disk.crashed && (err == nil || errors.Is(err, store.ErrNoSpace))
}

// operation is called before each operation of the disk.
func (c *crasher) operation(name string) error {
	if c.busy && c.random.IntN(3) == 0 { // a snapshot stops nobody
		c.busy = false
		c.write()
		c.busy = true
	}
	if c.operations--; c.operations > 0 {
		return nil
	}
	if c.happens == errCrashed {
		c.disk.crashed = true
	} else if name != "write" && !strings.HasPrefix(name, "sync") {
		return nil
	}
	return c.happens
}

func (c *crasher) step() {
	switch n := c.random.IntN(40); {
	case n == 0:
		c.disk.space = c.random.Int64N(20_000) // full, or nearly so
	case n < 4:
		c.disk.space = -1
	case n < 8:
		c.busy = true
		select {
		case <-c.store.grown:
			if c.store.snapshot(context.Background()) == nil {
				c.snapshots++
			}
		default:
		}
		c.busy = false
	case n < 10: // also what is no longer in memory, wherever it is now
		c.check()
	default:
		c.write()
	}
}

// write makes some writes as one group.
func (c *crasher) write() {
	before := c.store.segment.name
	var all []*write
	var wants []error
	keys := c.random.Perm(12)
	for _, k := range keys[:1+c.random.IntN(4)] {
		w, want := c.newWrite(fmt.Sprintf("/k/%d", k))
		w.note = []byte("noted")
		if err := c.store.enqueue(w); err != nil {
			return
		}
		all, wants = append(all, w), append(wants, want)
	}
	rev := c.revision
	c.store.commitWaiting()
	for i, w := range all {
		<-w.done
		d := doubt{store.Entry{Key: w.Key, Value: w.Value, Revision: w.revision}, w.Deleted}
		switch {
		case w.err == nil && wants[i] == nil:
			if rev++; w.revision != rev {
				c.t.Errorf("revision %d follows %d", w.revision, rev-1)
			}
			c.apply(d)
			c.revision = rev
		case wants[i] != nil && errors.Is(w.err, wants[i]):
		case errors.Is(w.err, store.ErrNoSpace) && wants[i] == nil && c.disk.space >= 0:
			c.refused++
		case c.disk.crashed && errors.Is(w.err, errCrashed) && wants[i] != nil: // the entry of a conflict cannot be read
		case !c.writable() && wants[i] == nil:
			d.Revision = c.revision + store.Revision(len(c.doubtful)) + 1
			c.doubtful = append(c.doubtful, d)
		default:
			c.t.Errorf("%s: %v, want %v", w.Key, w.err, wants[i])
		}
	}
	if c.store.segment.name != before {
		c.segments++
	}
}

// newWrite makes a write, and returns the error that it must have.
func (c *crasher) newWrite(key string) (*write, error) {
	w := newWrite(key)
	old, exists := c.acknowledged[key]
	value := bytes.Repeat([]byte{byte(c.random.IntN(4))}, 10)
	if c.random.IntN(4) > 0 {
		value = make([]byte, c.random.IntN(1500)) // which compression does not make smaller
		for i := range value {
			value[i] = byte(c.random.Uint32())
		}
	}
	if !exists {
		w.Value, w.check = value, func() error { return c.store.state.CheckCreate(key, nil) }
		if c.random.IntN(8) == 0 {
			w.check = func() error { return c.store.state.CheckExpected(key, 1) }
			return w, store.ErrNotFound
		}
		return w, nil
	}
	expect, want := old.Revision, error(nil)
	if c.random.IntN(8) == 0 {
		expect, want = expect-1, store.ErrConflict
	}
	if w.check = func() error { return c.store.state.CheckExpected(key, expect) }; c.random.IntN(3) == 0 {
		w.Deleted = true
		return w, want
	}
	w.Value = value
	return w, want
}

// apply makes a change that is known to be there.
func (c *crasher) apply(d doubt) {
	d.apply(c.acknowledged)
	c.versions = append(c.versions, d)
}

func (d doubt) apply(to map[string]store.Entry) {
	if d.deleted {
		delete(to, d.Key)
	} else {
		to[d.Key] = d.Entry
	}
}

// check compares the store with what must be there, with the doubtful changes or without them.
func (c *crasher) check() {
	c.t.Helper()
	page, err := c.store.List(context.Background(), "/", store.ListOptions{})
	if errors.Is(err, errCrashed) {
		return
	}
	if err != nil {
		c.t.Fatal(err)
	}
	got := map[string]store.Entry{}
	for _, e := range page.Entries {
		got[e.Key] = e
	}
	if len(c.doubtful) > 0 && page.Revision > c.revision {
		for _, d := range c.doubtful {
			c.apply(d)
		}
		c.revision += store.Revision(len(c.doubtful))
	}
	c.doubtful = nil
	if page.Revision != c.revision || !maps.EqualFunc(got, c.acknowledged, sameEntry) {
		c.t.Errorf("after crash %d the state is that of %d, want %d:\n%v, want\n%v", c.crashes, page.Revision, c.revision,
			describe(got), describe(c.acknowledged))
	}
	c.checkPast()
}

// checkPast compares what the store knows of the past with all changes that were made.
func (c *crasher) checkPast() {
	c.t.Helper()
	oldest := c.store.Oldest()
	if !c.history.kept() || oldest > c.revision {
		return
	}
	c.pasts++
	c.oldest += int(c.revision - oldest)
	at := oldest + store.Revision(c.random.Int64N(int64(c.revision-oldest)+1))
	want := map[string]store.Entry{}
	for _, d := range c.versions[:at-1] {
		d.apply(want)
	}
	got := map[string]store.Entry{}
	o := store.ListOptions{Revision: at, Limit: 1 + c.random.IntN(20)}
	for page := (store.Page{More: true}); page.More; {
		var err error
		if page, err = c.store.List(context.Background(), "/k/", o); err != nil {
			if !errors.Is(err, errCrashed) {
				c.t.Fatalf("list at %d of %d to %d: %v", at, oldest, c.revision, err)
			}
			return
		}
		for _, e := range page.Entries {
			got[e.Key] = e
			o.From = e.Key + "\x00"
		}
	}
	if !maps.EqualFunc(got, want, sameEntry) {
		c.t.Errorf("the state at %d of %d to %d is\n%v, want\n%v", at, oldest, c.revision, describe(got), describe(want))
	}
	c.checkChanges(at)
}

// checkChanges compares the changes after a revision, those of one key and all of them.
func (c *crasher) checkChanges(after store.Revision) {
	key := fmt.Sprintf("/k/%d", c.random.IntN(12))
	all, err := c.store.Changes(context.Background(), store.ChangeQuery{Key: key, After: after})
	if errors.Is(err, errCrashed) {
		return
	}
	var want []doubt
	for _, d := range c.versions[after-1:] {
		if d.Key == key {
			want = append(want, d)
		}
	}
	same := func(d doubt, got store.Change) bool {
		return d.Revision == got.Revision && d.deleted == (got.Type == store.Delete) && bytes.Equal(d.Value, got.Value) && string(got.Note) == "noted"
	}
	if err != nil || !slices.EqualFunc(want, all, same) {
		c.t.Errorf("%d changes of %s after %d, want %d, %v", len(all), key, after, len(want), err)
	}
	for reached := after; reached < c.revision; {
		b, err := c.store.batchAfter(context.Background(), "/k/", reached, c.revision)
		if errors.Is(err, errCrashed) {
			return
		}
		if err != nil {
			c.t.Fatalf("after %d: %v", reached, err)
		}
		for i, e := range b.Events {
			want := c.versions[int(reached)-1+i]
			if e.Key != want.Key || e.Revision != want.Revision || !bytes.Equal(e.Value, want.Value) {
				c.t.Errorf("change %d of %s, want %d of %s", e.Revision, e.Key, want.Revision, want.Key)
			}
		}
		next, err := c.store.Next(context.Background(), reached, 3)
		if errors.Is(err, errCrashed) {
			return
		}
		if err != nil || len(next) < 1 || len(next) > 3 {
			c.t.Fatalf("after %d: %d changes, %v", reached, len(next), err)
		}
		for i, d := range next {
			if want := c.versions[int(reached)-1+i]; d.Key != want.Key || !same(want, d) {
				c.t.Errorf("change %d of %s, want %d of %s", d.Revision, d.Key, want.Revision, want.Key)
			}
		}
		reached = b.Revision
	}
}

func sameEntry(a, b store.Entry) bool {
	return a.Revision == b.Revision && bytes.Equal(a.Value, b.Value)
}

func describe(all map[string]store.Entry) (lines []string) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, fmt.Sprintf("%s@%d: %d bytes", key, all[key].Revision, len(all[key].Value)))
	}
	return lines
}
