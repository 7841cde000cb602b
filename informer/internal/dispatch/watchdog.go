package dispatch

import "time"

// watchLocked sets the watchdog.
func (l *sharedLoop[T]) watchLocked() {
	if l.watching || l.stopping {
		return
	}
	l.watching = true
	l.callsSeen = l.calls
	l.owner.running.Add(1)
	if l.watchdog == nil {
		l.watchdog = time.AfterFunc(maxDelay, l.watch)
		return
	}
	l.watchdog.Reset(maxDelay)
}

// watch leaves a follower alone if one call has taken all the time since the watchdog was set.
func (l *sharedLoop[T]) watch() {
	defer l.owner.running.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching = false
	switch {
	case l.calling == nil:
	case l.callsSeen == l.calls:
		f := l.calling
		l.removeLocked(f)
		f.place = alone
		f.setApart()
		l.replaceLocked()
	default:
		l.watchLocked()
	}
}

// replaceLocked lets the loop go on in another goroutine.
func (l *sharedLoop[T]) replaceLocked() {
	l.calling = nil
	l.generation++
	l.running = len(l.members) > 0
	if !l.running {
		return
	}
	generation := l.generation
	l.owner.running.Go(func() {
		if f := l.run(generation); f != nil {
			f.runAlone()
		}
	})
}

// goroutineEnded is called when a receiver did not return but ended the goroutine. The follower has left then.
func (l *sharedLoop[T]) goroutineEnded(generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation || l.calling == nil {
		return
	}
	f := l.calling
	f.leave(ErrClosed)
	l.removeLocked(f)
	f.place = gone
	close(f.done)
	l.replaceLocked()
}
