package scheduler

import (
	"context"
	"sync"
	"time"
)

// binder carries out what the chooser decides: it binds pods, and deletes those that must make room.
type binder struct {
	*knowledge
	evictions sync.WaitGroup
	evictors  chan struct{} // limits them
}

func newBinder(k *knowledge) *binder {
	return &binder{knowledge: k, evictors: make(chan struct{}, k.options.Parallelism)}
}

// run carries out the decisions of a chooser until ctx ends: pods are chosen for one after the other, and many are
// bound at a time.
func (b *binder) run(ctx context.Context, c *chooser) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { b.reporter.run(ctx) })

	binding, stop := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() { b.grace(ctx, binding, stop) })
	defer stop()
	defer b.evictions.Wait()
	var bindings sync.WaitGroup
	defer bindings.Wait()

	slots := make(chan struct{}, b.options.Parallelism)
	decisions := make(chan decision)
	defer close(decisions)
	binders := 0
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		d, ok := b.next(ctx, binding, c)
		if !ok {
			return
		}
		if d.cases.prepare() {
			// Preparing may take minutes, for example for volumes, and uses no slot meanwhile.
			<-slots
			bindings.Go(func() { b.bind(binding, d) })
			continue
		}
		select {
		case decisions <- d:
			continue
		default:
		}
		if binders < b.options.Parallelism { // the goroutine is kept: its grown stack is used for the next binding
			binders++
			bindings.Go(func() { b.bindAll(binding, decisions, slots) })
		}
		decisions <- d // the goroutine that has freed a slot is about to take it
	}
}

// bindAll binds the decisions from the channel until it is closed.
func (b *binder) bindAll(ctx context.Context, decisions <-chan decision, slots <-chan struct{}) {
	for d := range decisions {
		b.bind(ctx, d)
		<-slots
	}
}

// grace stops bindings some time after ctx has ended, so that requests in progress get their answers.
func (b *binder) grace(ctx, binding context.Context, stop context.CancelFunc) {
	select {
	case <-ctx.Done():
	case <-binding.Done():
		return
	}
	timer := time.NewTimer(b.options.Grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		stop()
	case <-binding.Done():
	}
}

// next waits for a pod that gets a node. Meanwhile it makes room for those that get none. It returns false when ctx
// ends.
func (b *binder) next(ctx, binding context.Context, c *chooser) (decision, bool) {
	for ctx.Err() == nil {
		d, next := c.attempt(time.Now())
		if d.node != "" {
			return d, true
		}
		b.makeRoom(binding, d)
		if !b.pause(ctx, next) {
			return decision{}, false
		}
	}
	return decision{}, false
}
