package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/millrace/millrace/cause"
)

// Run works on keys with the given number of workers (at least one) until ctx ends or the queue is shut down and empty.
// It returns when the last worker has stopped: nil after a shutdown, else the cause of ctx.
//
// Work that succeeds ends the key's series of failures. Work that fails is reported to OnError and retried, rate
// limited, unless the error is [Terminal]. The context of the work says what has caused it (see package cause). When ctx
// ends, waiting keys stay in the queue. To have them worked on, call [Queue.Drain] before ending ctx.
func (q *Queue[K]) Run(ctx context.Context, workers int, work func(context.Context, K) error) error {
	c := &crew[K]{queue: q, most: max(workers, 1), work: work}
	q.begin()
	defer q.end()
	c.start(ctx)
	c.all.Wait()
	return context.Cause(ctx)
}

// begin and end count the calls of Run. When the last one ends, so does the alarm for delayed keys: it would keep the
// queue, and all that its owner has, in memory until it rings.
func (q *Queue[K]) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.runs++; q.runs == 1 && q.delayed.len() > 0 {
		q.setAlarmLocked(time.Duration(q.delayed.slots[0].rank - q.now()))
	}
}

func (q *Queue[K]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.runs--; q.runs == 0 && q.alarm != nil {
		q.alarm.Stop()
	}
}

// mostIdle is how many workers wait for a key. One would do; the second is there when one key comes after the other.
const mostIdle = 2

// crew are the workers of one Run. A queue in which nothing happens needs only one of them, which waits; when it takes a
// key, another one waits.
type crew[K comparable] struct {
	queue *Queue[K]
	most  int
	work  func(context.Context, K) error
	all   sync.WaitGroup

	mu          sync.Mutex // guards what follows
	alive, idle int
}

// start starts a worker, unless there are as many as there may be, or one waits already.
func (c *crew[K]) start(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alive < c.most && c.idle == 0 {
		c.alive++
		c.all.Go(func() { c.run(ctx) })
	}
}

// run is a worker.
func (c *crew[K]) run(ctx context.Context) {
	over := false
	defer func() {
		if !over { // work has called runtime.Goexit: go on in another goroutine
			c.all.Go(func() { c.run(ctx) })
		}
	}()
	for c.waits() && c.step(ctx) {
	}
	over = true
}

// waits reports whether a worker may wait for a key. If not, it is one less.
func (c *crew[K]) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == mostIdle {
		c.alive--
		return false
	}
	c.idle++
	return true
}

// busy says that a worker waits no more.
func (c *crew[K]) busy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle--
}

// step waits for a key and works on it. It returns false if there will be no more.
func (c *crew[K]) step(ctx context.Context) bool {
	key, err := c.queue.Get(ctx)
	c.busy()
	if err != nil {
		return false
	}
	c.start(ctx)
	c.queue.handle(ctx, key, c.work)
	return true
}

// handle works on a key that Get has handed out.
func (q *Queue[K]) handle(ctx context.Context, key K, work func(context.Context, K) error) {
	err := ErrExit // if work does not return
	defer func() {
		q.settle(ctx, key, err)
		q.Done(key)
	}()
	working := cause.Working(ctx, q.opts.Name, key, q.doing(key))
	err = Contain(func() error { return work(working, key) })
}

// settle decides what happens to a key after work on it.
func (q *Queue[K]) settle(ctx context.Context, key K, err error) {
	if err != nil {
		q.opts.OnError(ctx, key, err)
	}
	if err == nil || IsTerminal(err) {
		q.Forget(key)
	} else {
		q.AddRateLimited(key)
	}
}

// ErrExit is the error of work that ends its goroutine (runtime.Goexit) instead of returning.
var ErrExit = errors.New("the work has ended its goroutine")

// Contain calls f and turns a panic of f into a *[PanicError].
func Contain(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}

// PanicError is a panic of a work function.
type PanicError struct {
	Value any
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value of the panic, if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

type terminalError struct{ err error }

func (e terminalError) Error() string { return e.err.Error() }
func (e terminalError) Unwrap() error { return e.err }

// Terminal marks an error that retrying cannot fix. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminalError{err}
}

// IsTerminal reports whether err, or an error it wraps, was marked by Terminal.
func IsTerminal(err error) bool {
	var t terminalError
	return errors.As(err, &t)
}
