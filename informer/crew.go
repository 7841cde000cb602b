package informer

import (
	"slices"
	"sync"
	"time"
)

// crew calls the handlers that keep up, one after the other, in one goroutine: to wake fifty goroutines for a change
// costs more than what fifty handlers do with it. A handler starts in a goroutine of its own and comes aboard when it
// has caught up. One that holds the others up is left behind with the goroutine that is calling it, and the crew goes on
// in another.
type crew[T any] struct {
	owner *Shared[T]

	mu       sync.Mutex
	members  []*Registration[T] // guarded by mu
	calling  *Registration[T]   // guarded by mu: the member that is being called
	shift    uint64             // guarded by mu: which goroutine is the crew's; it changes when one is left behind
	working  bool               // guarded by mu: there is such a goroutine
	dismount bool               // guarded by mu: the informer is ending
	beat     uint64             // guarded by mu: how many calls there have been
	watched  uint64             // guarded by mu: beat at the last look
	watching bool               // guarded by mu: the timer is set, and counted among what is running
	timer    *time.Timer        // guarded by mu
	wary     bool               // guarded by mu: somebody takes long, so each is timed

	roused signal // somebody has come aboard, or all shall leave
}

// Whoever holds the others up for longer than patience goes on alone for a while, which doubles each time. So does who
// needs more than aLot for a change on average.
const (
	crewPatience = 2 * time.Millisecond
	aLot         = 100 * time.Microsecond
	firstExile   = 100 * time.Millisecond
	longestExile = time.Minute
	crewBatch    = 64
)

// place is where a handler's functions are called.
type place int

const (
	apart  place = iota // in a goroutine of its own
	aboard              // in the crew's
	left                // nowhere any more
)

// board takes a handler in that has caught up, and reports whether it did. If the crew has no goroutine, the caller's
// becomes that: it has to work the shift.
func (c *crew[T]) board(r *Registration[T]) (shift uint64, works, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dismount || r.leaving.Err() != nil || time.Now().Before(r.exile) {
		return 0, false, false
	}
	r.place = aboard
	c.members = append(c.members, r)
	if c.working {
		c.roused.raise()
		return 0, false, true
	}
	c.working = true
	return c.shift, true, true
}

// drop lets a member go that wants to leave.
func (c *crew[T]) drop(r *Registration[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.place == aboard {
		c.dropLocked(r)
	}
}

func (c *crew[T]) dropLocked(r *Registration[T]) {
	c.removeLocked(r)
	r.place = left
	if c.calling != r {
		close(r.done)
	}
	c.roused.raise()
}

func (c *crew[T]) removeLocked(r *Registration[T]) {
	if i := slices.Index(c.members, r); i >= 0 {
		c.members = slices.Delete(c.members, i, i+1)
	}
}

// dismiss lets all members go.
func (c *crew[T]) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dismount = true
	for _, r := range slices.Clone(c.members) {
		c.dropLocked(r)
	}
	if c.watching && c.timer.Stop() {
		c.watching = false
		c.owner.running.Done()
	}
	c.roused.raise()
}

// work calls members until there are none, or until somebody else does it because of one that takes too long, which is
// returned.
func (c *crew[T]) work(shift uint64) (behind *Registration[T]) {
	finished := false
	defer func() {
		if !finished {
			c.exited(shift) // a handler has ended the goroutine
		}
	}()
	for behind == nil {
		behind = c.round(shift)
		if behind == nil && !c.wait(shift) {
			break
		}
	}
	finished = true
	return behind
}

// round lets each member take what there is for it. It returns the member that the crew has left behind with this
// goroutine, if that has happened.
func (c *crew[T]) round(shift uint64) (behind *Registration[T]) {
	began, told, wary := time.Now(), 0, c.isWary()
	for i := 0; ; i++ {
		r, ok := c.call(shift, i)
		if !ok {
			break
		}
		n, slow := r.deliver(c.owner.batch, wary)
		if !c.returned(shift, r, slow) {
			return r
		}
		told += n
	}
	if long := time.Since(began) > time.Duration(told)*aLot; told > 0 && long != wary {
		c.mu.Lock()
		c.wary = long
		c.mu.Unlock()
	}
	return nil
}

func (c *crew[T]) isWary() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wary
}

// call marks the member in a place as being called.
func (c *crew[T]) call(shift uint64, i int) (*Registration[T], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shift != shift || i >= len(c.members) {
		return nil, false
	}
	c.calling = c.members[i]
	c.beat++
	c.watchLocked()
	return c.calling, true
}

// returned marks that nobody is being called. It reports false if the crew has gone on without the caller, whose
// goroutine now is the handler's own.
func (c *crew[T]) returned(shift uint64, r *Registration[T], slow bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shift != shift {
		return false
	}
	c.calling = nil
	switch {
	case r.place == left:
		close(r.done)
	case slow || r.resyncDue(time.Now()):
		if slow {
			r.banish()
		}
		c.removeLocked(r)
		r.place = apart
		c.owner.running.Go(r.goOn)
	}
	return true
}

// watchLocked makes sure that somebody notices when a call takes too long.
func (c *crew[T]) watchLocked() {
	if c.watching || c.dismount {
		return
	}
	c.watching = true
	c.watched = c.beat
	c.owner.running.Add(1)
	if c.timer == nil {
		c.timer = time.AfterFunc(crewPatience, c.look)
		return
	}
	c.timer.Reset(crewPatience)
}

// look is called while there are calls: if one has taken all the time since the last look, the crew leaves it behind.
func (c *crew[T]) look() {
	defer c.owner.running.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watching = false
	if c.calling == nil {
		return
	}
	if c.watched == c.beat {
		c.leaveBehindLocked()
		return
	}
	c.watchLocked()
}

func (c *crew[T]) leaveBehindLocked() {
	r := c.calling
	c.removeLocked(r)
	r.place = apart
	r.banish()
	c.replaceLocked()
}

// replaceLocked lets the crew go on in another goroutine.
func (c *crew[T]) replaceLocked() {
	c.calling = nil
	c.shift++
	c.working = len(c.members) > 0
	if c.working {
		shift := c.shift
		c.owner.running.Go(func() {
			if behind := c.work(shift); behind != nil {
				behind.goOn()
			}
		})
	}
}

// exited takes note that a handler's function has not returned but ended the goroutine. The handler has left then.
func (c *crew[T]) exited(shift uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shift != shift || c.calling == nil {
		return
	}
	r := c.calling
	r.leave(ErrClosed)
	c.removeLocked(r)
	r.place = left
	close(r.done)
	c.replaceLocked()
}
