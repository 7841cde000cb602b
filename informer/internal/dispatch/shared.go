package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/informer/internal/signal"
)

// sharedLoop calls the followers that keep up, one after the other, in one goroutine: to wake fifty goroutines for a
// change costs more than what fifty handlers do with it. A follower starts in a goroutine of its own and joins when it
// has caught up. One that takes too long is left alone with the goroutine that is calling it, and the shared loop goes on
// in another one.
type sharedLoop[T any] struct {
	owner *Dispatcher[T]

	mu         sync.Mutex
	members    []*Follower[T] // guarded by mu
	calling    *Follower[T]   // guarded by mu: the member that is being called
	generation uint64         // guarded by mu: which goroutine runs the loop; it changes when one is left to a follower
	running    bool           // guarded by mu: there is such a goroutine
	stopping   bool           // guarded by mu
	timed      bool           // guarded by mu: some member takes long, so each call is timed

	// The watchdog looks, while there are calls, whether one takes too long.
	calls     uint64      // guarded by mu: how many calls there have been
	callsSeen uint64      // guarded by mu: calls when the watchdog looked last
	watching  bool        // guarded by mu: its timer is set, and counted among the dispatcher's goroutines
	watchdog  *time.Timer // guarded by mu

	wake signal.Signal // somebody has joined, or left
}

// A follower that delays the others by more than maxDelay is called alone for a while, which doubles each time. So is one
// that needs more than maxPerChange for a change on average.
const (
	maxDelay       = 2 * time.Millisecond
	maxPerChange   = 100 * time.Microsecond
	firstPenalty   = 100 * time.Millisecond
	longestPenalty = time.Minute
)

// place is where a follower's receiver is called.
type place int

const (
	alone  place = iota // in a goroutine of its own
	shared              // in the shared loop's
	gone                // nowhere any more
)

// join takes in a follower that has caught up, and reports whether it did. If the loop has no goroutine, the caller's
// becomes that: it has to run the loop.
func (l *sharedLoop[T]) join(f *Follower[T]) (generation uint64, works, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping || f.leaving.Err() != nil || time.Now().Before(f.aloneUntil) {
		return 0, false, false
	}
	f.place = shared
	l.members = append(l.members, f)
	if l.running {
		l.wake.Raise()
		return 0, false, true
	}
	l.running = true
	return l.generation, true, true
}

// leave removes a member that wants to leave.
func (l *sharedLoop[T]) leave(f *Follower[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.place == shared {
		l.leaveLocked(f)
	}
}

func (l *sharedLoop[T]) leaveLocked(f *Follower[T]) {
	l.removeLocked(f)
	f.place = gone
	if l.calling != f {
		close(f.done)
	}
	l.wake.Raise()
}

func (l *sharedLoop[T]) removeLocked(f *Follower[T]) {
	if i := slices.Index(l.members, f); i >= 0 {
		l.members = slices.Delete(l.members, i, i+1)
	}
}

// stop removes all members.
func (l *sharedLoop[T]) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopping = true
	for _, f := range slices.Clone(l.members) {
		l.leaveLocked(f)
	}
	if l.watching && l.watchdog.Stop() {
		l.watching = false
		l.owner.running.Done()
	}
	l.wake.Raise()
}

// run calls members until there are none, or until another goroutine does it because a member takes too long: that one
// is returned, and is left to the caller's goroutine.
func (l *sharedLoop[T]) run(generation uint64) (leftAlone *Follower[T]) {
	finished := false
	defer func() {
		if !finished {
			l.goroutineEnded(generation) // by a receiver, with runtime.Goexit
		}
	}()
	for leftAlone == nil {
		leftAlone = l.round(generation)
		if leftAlone == nil && !l.wait(generation) {
			break
		}
	}
	finished = true
	return leftAlone
}

// round tells each member of what there is for it. It returns the member that was left alone with this goroutine, if
// that has happened.
func (l *sharedLoop[T]) round(generation uint64) (leftAlone *Follower[T]) {
	began, told, timed, batch := time.Now(), 0, l.isTimed(), l.owner.options.Batch()
	for i := 0; ; i++ {
		f, ok := l.begin(generation, i)
		if !ok {
			break
		}
		n, slow := f.deliver(batch, timed)
		if !l.end(generation, f, slow) {
			return f
		}
		told += n
	}
	if long := time.Since(began) > time.Duration(told)*maxPerChange; told > 0 && long != timed {
		l.mu.Lock()
		l.timed = long
		l.mu.Unlock()
	}
	return nil
}

// Together returns how many followers the shared loop calls.
func (d *Dispatcher[T]) Together() int {
	d.shared.mu.Lock()
	defer d.shared.mu.Unlock()
	return len(d.shared.members)
}

func (l *sharedLoop[T]) isTimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timed
}

// begin marks the member at an index as being called.
func (l *sharedLoop[T]) begin(generation uint64, i int) (*Follower[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation || i >= len(l.members) {
		return nil, false
	}
	l.calling = l.members[i]
	l.calls++
	l.watchLocked()
	return l.calling, true
}

// end marks that nobody is being called. It reports false if the loop has gone on without the caller, whose goroutine is
// now the follower's own.
func (l *sharedLoop[T]) end(generation uint64, f *Follower[T], slow bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation {
		return false
	}
	l.calling = nil
	switch {
	case f.place == gone:
		close(f.done)
	case slow || f.resyncDue(time.Now()):
		if slow {
			f.setApart()
		}
		l.removeLocked(f)
		f.place = alone
		l.owner.running.Go(f.runAlone)
	}
	return true
}

// wait returns when there may be something to do. It reports false when this goroutine does not run the loop any more.
func (l *sharedLoop[T]) wait(generation uint64) bool {
	news, wake := l.owner.news.Wait(), l.wake.Wait()
	busy, due, runs := l.look(generation)
	if !runs || busy {
		return runs
	}
	l.owner.options.Idle()
	resync, stop := alarm(due)
	defer stop()
	select {
	case <-news:
	case <-wake:
	case <-resync:
	}
	return true
}

// look reports whether a member has something to do, when the next resync is due, and whether the caller's goroutine runs
// the loop.
func (l *sharedLoop[T]) look(generation uint64) (busy bool, due time.Time, runs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation {
		return false, due, false
	}
	if len(l.members) == 0 {
		l.running = false
		return false, due, false
	}
	for _, f := range l.members {
		if f.waiting() {
			return true, due, true
		}
		if !f.nextResync.IsZero() && (due.IsZero() || f.nextResync.Before(due)) {
			due = f.nextResync
		}
	}
	return false, due, true
}
