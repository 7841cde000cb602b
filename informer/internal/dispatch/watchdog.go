package dispatch

import "time"

// setWatchdogLocked starts the watchdog's timer.
func (l *sharedLoop[T]) setWatchdogLocked() {
	if l.watchdogSet || l.stopping {
		return
	}
	l.watchdogSet = true
	l.callsSeen = l.calls
	l.owner.running.Add(1)
	if l.watchdog == nil {
		l.watchdog = time.AfterFunc(maxDelay, l.checkCall)
		return
	}
	l.watchdog.Reset(maxDelay)
}

// checkCall moves a follower out of the shared loop if one call of it has lasted since the watchdog was set.
func (l *sharedLoop[T]) checkCall() {
	defer l.owner.running.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchdogSet = false
	switch {
	case l.calling == nil:
	case l.callsSeen == l.calls:
		f := l.calling
		l.removeLocked(f)
		f.goroutine = alone
		f.penalize()
		l.replaceLocked()
	default:
		l.setWatchdogLocked()
	}
}

// replaceLocked lets another goroutine run the loop.
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

// goroutineEnded is called when a receiver has ended the goroutine instead of returning. It closes the follower.
func (l *sharedLoop[T]) goroutineEnded(generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation != generation || l.calling == nil {
		return
	}
	f := l.calling
	f.leave(ErrClosed)
	l.removeLocked(f)
	f.goroutine = gone
	close(f.done)
	l.replaceLocked()
}
