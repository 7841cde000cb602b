package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/informer/internal/signal"
)

// sharedLoop calls the followers that keep up, one after the other, in one goroutine: waking fifty goroutines for a
// change costs more than the work of fifty handlers. A follower starts in its own goroutine and joins the loop when it
// has caught up. If a call takes too long, the goroutine that makes it is left to that follower alone, and the loop
// continues in another goroutine.
type sharedLoop[T any] struct {
	owner *Dispatcher[T]

	mu         sync.Mutex
	members    []*Follower[T] // guarded by mu
	calling    *Follower[T]   // guarded by mu: the member that is being called
	generation uint64         // guarded by mu: the number of the goroutine that runs the loop; it grows when a goroutine is left to a follower
	running    bool           // guarded by mu: a goroutine runs the loop
	stopping   bool           // guarded by mu
	timed      bool           // guarded by mu: some member is slow, so each call is timed

	// The watchdog checks, while there are calls, whether one takes too long.
	calls       uint64      // guarded by mu: how many calls there have been
	callsSeen   uint64      // guarded by mu: the number of calls at the watchdog's last check
	watchdogSet bool        // guarded by mu: the watchdog's timer is set, and counted in the dispatcher's running
	watchdog    *time.Timer // guarded by mu

	wake signal.Signal // a member has joined, or left
}

// A follower that delays the others by more than maxDelay is called alone for a while, which doubles each time. The
// same holds for one that needs more than maxPerChange for a change on average.
const (
	maxDelay       = 2 * time.Millisecond
	maxPerChange   = 100 * time.Microsecond
	firstPenalty   = 100 * time.Millisecond
	longestPenalty = time.Minute
)

// goroutine says in which goroutine a follower's receiver is called.
type goroutine int

const (
	alone  goroutine = iota // in its own goroutine
	shared                  // in the shared loop's goroutine
	gone                    // not called any more
)

// join adds a follower that has caught up; ok reports whether it did. If runsLoop, no goroutine runs the loop and the
// caller's has to run it.
func (l *sharedLoop[T]) join(f *Follower[T]) (generation uint64, runsLoop, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopping || f.leaving.Err() != nil || time.Now().Before(f.aloneUntil) {
		return 0, false, false
	}
	f.goroutine = shared
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
	if f.goroutine == shared {
		l.leaveLocked(f)
	}
}

func (l *sharedLoop[T]) leaveLocked(f *Follower[T]) {
	l.removeLocked(f)
	f.goroutine = gone
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
	if l.watchdogSet && l.watchdog.Stop() {
		l.watchdogSet = false
		l.owner.running.Done()
	}
	l.wake.Raise()
}

// run calls members until there are none, or until a member takes too long and another goroutine runs the loop. Then
// that member is returned, and the caller's goroutine calls it alone.
func (l *sharedLoop[T]) run(generation uint64) (leftAlone *Follower[T]) {
	finished := false
	defer func() {
		if !finished {
			l.goroutineEnded(generation) // a receiver has called runtime.Goexit
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

// round calls each member once with its waiting changes. If a member took too long and now has this goroutine alone, it
// is returned.
func (l *sharedLoop[T]) round(generation uint64) (leftAlone *Follower[T]) {
	began, told, timed, batch := time.Now(), 0, l.isTimed(), l.owner.options.Batch()
	for i := 0; ; i++ {
		f, ok := l.beginCall(generation, i)
		if !ok {
			break
		}
		n, slow := f.deliver(batch, timed)
		if !l.endCall(generation, f, slow) {
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

// SharedCount returns the number of followers in the shared loop.
func (d *Dispatcher[T]) SharedCount() int {
	d.shared.mu.Lock()
	defer d.shared.mu.Unlock()
	return len(d.shared.members)
}

func (l *sharedLoop[T]) isTimed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timed
}

// beginCall marks the member at an index as being called.
func (l *sharedLoop[T]) beginCall(generation uint64, i int) (*Follower[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation || i >= len(l.members) {
		return nil, false
	}
	l.calling = l.members[i]
	l.calls++
	l.setWatchdogLocked()
	return l.calling, true
}

// endCall marks that no member is being called. It returns false if another goroutine runs the loop now: then the
// caller's goroutine belongs to the follower.
func (l *sharedLoop[T]) endCall(generation uint64, f *Follower[T], slow bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation {
		return false
	}
	l.calling = nil
	switch {
	case f.goroutine == gone:
		close(f.done)
	case slow || f.resyncDue(time.Now()):
		if slow {
			f.penalize()
		}
		l.removeLocked(f)
		f.goroutine = alone
		l.owner.running.Go(f.runAlone)
	}
	return true
}

// wait returns when a member may have something to do. It returns false when the caller's goroutine does not run the
// loop any more.
func (l *sharedLoop[T]) wait(generation uint64) bool {
	news, wake := l.owner.announced.Wait(), l.wake.Wait()
	busy, due, runsLoop := l.findWork(generation)
	if !runsLoop || busy {
		return runsLoop
	}
	l.owner.options.Idle()
	resync, stop := timerAt(due)
	defer stop()
	select {
	case <-news:
	case <-wake:
	case <-resync:
	}
	return true
}

// findWork reports whether a member has something to do, when the next resync is due, and whether the caller's
// goroutine runs the loop.
func (l *sharedLoop[T]) findWork(generation uint64) (busy bool, due time.Time, runsLoop bool) {
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
