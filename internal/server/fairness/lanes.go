package fairness

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// lanes are threads for what would keep other flows waiting. The kernel prefers threads that have waited to threads that have computed, but
// Go runs any request on any thread: a get would pay for the lists that its thread has run before, and wait behind all the machine's threads.
type lanes struct {
	mu      sync.Mutex
	open    bool   // there may be threads: otherwise everybody serves their own
	threads int    // how many there are
	idle    []lane // the one used last is the last, and the next to be used: few threads are busy rather than all of them a little
}

// lane is where a thread gets its work.
type lane chan *task

type task struct {
	run      func()
	panicked any
	ended    chan struct{}
}

// mostLanes bounds the threads. Clients that do not read their answers keep theirs waiting, and Go ends a program that has ten thousand.
const mostLanes = 16

// laneStays is how long a thread stays that has nothing to do.
const laneStays = time.Second

// begin lets threads be made, and the function that it returns ends them.
func (l *lanes) begin() (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	return l.end
}

func (l *lanes) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
	for _, one := range l.idle {
		close(one)
	}
	l.idle = nil
}

// do runs a function on a thread of its own, and returns when it has ended. A panic becomes one of the caller.
func (l *lanes) do(run func()) {
	t := &task{run: run, ended: make(chan struct{})}
	free := l.free()
	if free == nil {
		run()
		return
	}
	free <- t
	<-t.ended
	if t.panicked != nil {
		panic(t.panicked)
	}
}

// free is a thread that has nothing to do; nil if there is none, and may not be another.
func (l *lanes) free() lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return nil
	}
	if n := len(l.idle); n > 0 {
		last := l.idle[n-1]
		l.idle = l.idle[:n-1]
		return last
	}
	if l.threads >= mostLanes {
		return nil
	}
	l.threads++
	made := make(lane, 1)
	go l.serve(made)
	return made
}

// serve is a thread. It ends after some time without work, and with the others.
func (l *lanes) serve(own lane) {
	runtime.LockOSThread()
	defer l.ended()
	yield()
	widen()
	defer narrow()
	patience := time.NewTimer(laneStays)
	defer patience.Stop()
	for {
		select {
		case t := <-own:
			if t == nil {
				return
			}
			t.do()
			stays := l.back(own)
			close(t.ended)
			if !stays {
				return
			}
			patience.Reset(laneStays)
		case <-patience.C:
			if l.remove(own) {
				return
			}
		}
	}
}

func (l *lanes) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.threads--
}

// back notes that a thread has nothing to do, and reports whether it is to stay.
func (l *lanes) back(own lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.idle = append(l.idle, own)
	}
	return l.open
}

// remove takes a thread away that is idle, and reports whether it was.
func (l *lanes) remove(own lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.idle, own)
	if i < 0 {
		return false
	}
	l.idle = slices.Delete(l.idle, i, i+1)
	return true
}

func (t *task) do() {
	defer func() {
		if t.panicked = recover(); t.panicked != nil && t.panicked != http.ErrAbortHandler {
			t.panicked = &panicApart{t.panicked, debug.Stack()}
		}
	}()
	t.run()
}

// panicApart is a panic of another goroutine, whose stack would be lost otherwise.
type panicApart struct {
	value any
	stack []byte
}

func (p *panicApart) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }
