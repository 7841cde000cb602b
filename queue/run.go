package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/millrace/millrace/cause"
)

// Run works on keys with the given number of workers (at least one) until ctx ends or the queue is shut down and empty.
// It returns when the last worker has stopped: nil after a shutdown, else the cause of ctx.
//
// Work that succeeds ends the key's series of failures. Work that fails is reported to OnError and retried, rate
// limited, unless the error is [Terminal]. The context of the work says what has caused it (see package cause). When ctx ends, waiting keys stay in the queue. To have them worked on, call
// [Queue.Drain] before ending ctx.
func (q *Queue[K]) Run(ctx context.Context, workers int, work func(context.Context, K) error) error {
	var all sync.WaitGroup
	var worker func()
	worker = func() {
		over := false
		defer func() {
			if !over { // work has called runtime.Goexit: start another goroutine
				all.Go(worker)
			}
		}()
		for q.step(ctx, work) {
		}
		over = true
	}
	for range max(workers, 1) {
		all.Go(worker)
	}
	all.Wait()
	return context.Cause(ctx)
}

// step works on one key. It returns false if there will be no more.
func (q *Queue[K]) step(ctx context.Context, work func(context.Context, K) error) bool {
	key, err := q.Get(ctx)
	if err != nil {
		return false
	}
	err = ErrExit // if work does not return
	defer func() {
		q.settle(ctx, key, err)
		q.Done(key)
	}()
	working := cause.Working(ctx, q.opts.Name, key, q.doing(key))
	err = Contain(func() error { return work(working, key) })
	return true
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
