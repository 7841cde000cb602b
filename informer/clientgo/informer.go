package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace/millrace/informer"
)

// Errors of the adapter.
var (
	ErrReadOnly      = errors.New("an informer's store cannot be written to")
	ErrInUse         = errors.New("the informer is in use already")
	ErrOtherInformer = errors.New("the registration is not of this informer")
)

// Informer is a cache.SharedIndexInformer. New makes one.
type Informer[T informer.Object] struct {
	source  informer.Source[T]
	indexer *indexer[T]
	checks  checks

	mu         sync.Mutex
	options    informer.Options[T]                // guarded by mu, until it is built
	built      *informer.Shared[T]                // guarded by mu
	onError    cache.WatchErrorHandlerWithContext // guarded by mu
	runContext context.Context                    // guarded by mu
	transform  cache.TransformFunc                // guarded by mu
}

var _ cache.SharedIndexInformer = (*Informer[informer.Object])(nil)

// New returns an informer for a source. It can be configured until it is first used.
func New[T informer.Object](source informer.Source[T], options informer.Options[T]) *Informer[T] {
	i := &Informer[T]{source: source, options: options, runContext: context.Background()}
	i.indexer = &indexer[T]{owner: i, functions: cache.Indexers{}, indexes: map[string]*informer.Index[T]{}}
	return i
}

// Shared returns the underlying informer, for programs that move on from client-go's interfaces.
func (i *Informer[T]) Shared() *informer.Shared[T] {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.built != nil {
		return i.built
	}
	options := i.options
	if i.transform != nil {
		options.Transform = i.transformed(i.transform, options.Transform)
	}
	report := options.OnError
	options.OnError = func(err error) {
		if report != nil {
			report(err)
		}
		i.handleWatchError(err)
	}
	i.built = informer.New(i.source, options)
	return i.built
}

func (i *Informer[T]) transformed(outer cache.TransformFunc, inner func(T) (T, error)) func(T) (T, error) {
	return func(object T) (T, error) {
		if inner != nil {
			changed, err := inner(object)
			if err != nil {
				return object, err
			}
			object = changed
		}
		changed, err := outer(object)
		if err != nil {
			return object, err
		}
		typed, ok := changed.(T)
		if !ok {
			return object, fmt.Errorf("the transform made a %T of a %T", changed, object)
		}
		return typed, nil
	}
}

// handleWatchError passes the error of a list or watch to the watch error handler.
func (i *Informer[T]) handleWatchError(err error) {
	var panicked *informer.HandlerPanic
	i.mu.Lock()
	handler, ctx := i.onError, i.runContext
	i.mu.Unlock()
	if handler != nil && !errors.As(err, &panicked) {
		handler(ctx, &cache.Reflector{}, err)
	}
}

// RunWithContext runs the informer until the context ends.
func (i *Informer[T]) RunWithContext(ctx context.Context) {
	i.mu.Lock()
	i.runContext = ctx
	i.mu.Unlock()
	defer i.checks.run(ctx)()
	_ = i.Shared().Run(ctx) // the only error is ErrRunning, and this interface returns no error
}

// Run runs the informer until the channel is closed.
func (i *Informer[T]) Run(stop <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		select {
		case <-stop:
			cancel()
		case <-i.Shared().Done():
		}
	})
	i.RunWithContext(ctx)
}

// HasSynced reports whether the first list is complete.
func (i *Informer[T]) HasSynced() bool { return i.Shared().HasSynced() }

// HasSyncedChecker returns a checker whose channel is closed when the first list is complete.
func (i *Informer[T]) HasSyncedChecker() cache.DoneChecker {
	return checker{name: i.Shared().Name(), done: i.checks.add(i.Shared().Synced)}
}

// LastSyncResourceVersion returns the resource version that the cache has reached.
func (i *Informer[T]) LastSyncResourceVersion() string { return i.Shared().LastResourceVersion() }

// IsStopped reports whether the informer has run and ended.
func (i *Informer[T]) IsStopped() bool {
	select {
	case <-i.Shared().Done():
		return true
	default:
		return false
	}
}

// SetTransform sets a function that is applied to each object before it is kept. The informer must not have been used
// yet.
func (i *Informer[T]) SetTransform(transform cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.built != nil {
		return fmt.Errorf("set transform: %w", ErrInUse)
	}
	i.transform = transform
	return nil
}

// SetWatchErrorHandler sets the function that receives errors of lists and watches.
func (i *Informer[T]) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext sets the function that receives errors of lists and watches.
func (i *Informer[T]) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.onError = handler
	return nil
}

// GetStore returns the cache, which is read-only.
func (i *Informer[T]) GetStore() cache.Store { return i.indexer }

// GetIndexer returns the cache, which is read-only.
func (i *Informer[T]) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers adds indexes.
func (i *Informer[T]) AddIndexers(indexers cache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}

// GetController returns the informer, which implements cache.Controller.
func (i *Informer[T]) GetController() cache.Controller { return i }

// AddEventHandler adds a handler.
func (i *Informer[T]) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *Informer[T]) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions adds a handler.
func (i *Informer[T]) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	adapted := informer.Handler[T]{
		Added:   func(object T, initial bool) { handler.OnAdd(object, initial) },
		Updated: func(old, new T) { handler.OnUpdate(old, new) },
		Deleted: func(last T, unknown bool) { handler.OnDelete(lastState(last, unknown)) },
	}
	if options.ResyncPeriod != nil {
		adapted.Resync = *options.ResyncPeriod
		if adapted.Resync == 0 {
			adapted.Resync = -1
		}
	}
	shared := i.Shared()
	joined := &registration[T]{owner: i, inner: shared.Handle(adapted)}
	if i.IsStopped() {
		return nil, informer.ErrStopped
	}
	return joined, nil
}

func lastState[T informer.Object](last T, unknown bool) any {
	if !unknown {
		return last
	}
	return cache.DeletedFinalStateUnknown{Key: informer.KeyOf(last).String(), Obj: last}
}

// RemoveEventHandler removes a handler.
func (i *Informer[T]) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	joined, ok := handle.(*registration[T])
	if !ok || joined.owner != i {
		return ErrOtherInformer
	}
	joined.inner.Close()
	return nil
}

// registration is a cache.ResourceEventHandlerRegistration.
type registration[T informer.Object] struct {
	owner *Informer[T]
	inner *informer.Registration[T]
}

func (r *registration[T]) HasSynced() bool { return r.inner.HasSynced() }

func (r *registration[T]) HasSyncedChecker() cache.DoneChecker {
	return checker{name: r.owner.Shared().Name() + " handler", done: r.owner.checks.add(r.inner.Synced)}
}
