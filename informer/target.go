package informer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/watch"
)

// Target is filled by a Reflector: a Store, one of the queues of package delta, or one of your own.
type Target[T any] interface {
	Replace(objects []T, resourceVersion string) error
	Add(object T) error
	Update(object T) error
	Delete(object T) error
	Bookmark(resourceVersion string)
	Resync() error
}

// Reflector makes a Target follow a source: it lists, watches, and lists again when it must. It is the part of an
// informer that calls the server, for programs that need nothing else of an informer.
type Reflector[T Object] struct {
	run     func(context.Context) error
	options Options[T]
	target  Target[T]

	mu        sync.Mutex
	position  string // guarded by mu
	lastError error  // guarded by mu
}

// NewReflector returns a reflector. It uses the options for listing, watching, transforming and reporting, and Resync,
// which is how often the target's Resync is called.
func NewReflector[T Object](source Source[T], target Target[T], options Options[T]) *Reflector[T] {
	s := newShared(options)
	r := &Reflector[T]{options: s.options, target: target}
	settings := s.options.settings(s.log)
	if encoded, ok := encodedOf(source, options.DropManagedFields); ok { // decodes one object at a time, not a whole page
		r.run = newReflector(settings, encoded, &targetSink[*wire.Object, T]{reflector: r, admit: admitDecoded(s)}, r.failed).run
	} else {
		r.run = newReflector(settings, source, &targetSink[T, T]{reflector: r, admit: admitPlain(s)}, r.failed).run
	}
	return r
}

// Run follows the source until the context ends.
func (r *Reflector[T]) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	if r.options.Resync > 0 {
		running.Go(func() { r.resync(ctx) })
	}
	return r.run(ctx)
}

// LastResourceVersion returns the resource version that the target has reached.
func (r *Reflector[T]) LastResourceVersion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position
}

func (r *Reflector[T]) resync(ctx context.Context) {
	ticker := time.NewTicker(r.options.Resync)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.check(r.target.Resync())
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reflector[T]) failed(err error) {
	r.mu.Lock()
	r.lastError = err
	r.mu.Unlock()
	r.options.Metrics.Failed(r.options.Name)
	r.check(err)
}

func (r *Reflector[T]) check(err error) {
	if err != nil {
		r.options.Logger.Warn("reflector has trouble", "informer", r.options.Name, "error", err)
		r.options.OnError(err)
	}
}

func (r *Reflector[T]) reached(position string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.position = position
}

// targetSink passes what a reflector reads to a Target.
type targetSink[I item, T Object] struct {
	reflector *Reflector[T]
	admit     func(I) (*state.Version[T], error)
}

type targetList[I item, T Object] struct {
	sink    *targetSink[I, T]
	objects []T
	gone    map[Key]bool // deleted while the list was streamed
}

func (s *targetSink[I, T]) replace() listSink[I] { return &targetList[I, T]{sink: s} }

// object converts an item; ok is false if it cannot be used.
func (s *targetSink[I, T]) object(it I) (object T, ok bool) {
	v, err := s.admit(it)
	s.reflector.check(err)
	if v == nil {
		return object, false
	}
	return v.Plain, true
}

func (l *targetList[I, T]) take(event watch.Event[I]) {
	object, ok := l.sink.object(event.Object)
	if !ok {
		return
	}
	key := KeyOf(object)
	if event.Type != watch.Deleted {
		delete(l.gone, key)
		l.objects = append(l.objects, object)
		return
	}
	if l.gone == nil {
		l.gone = map[Key]bool{}
	}
	l.gone[key] = true
}

func (l *targetList[I, T]) commit(position string) {
	l.objects = slices.DeleteFunc(l.objects, func(object T) bool { return l.gone[KeyOf(object)] })
	l.sink.reflector.check(l.sink.reflector.target.Replace(l.objects, position))
	l.sink.reflector.reached(position)
}

func (s *targetSink[I, T]) apply(kind watch.EventType, it I) {
	r, position := s.reflector, it.GetResourceVersion()
	if object, ok := s.object(it); ok {
		switch kind {
		case watch.Added:
			r.check(r.target.Add(object))
		case watch.Modified:
			r.check(r.target.Update(object))
		case watch.Deleted:
			r.check(r.target.Delete(object))
		}
	}
	s.bookmark(position)
}

func (s *targetSink[I, T]) bookmark(position string) {
	s.reflector.target.Bookmark(position)
	s.reflector.reached(position)
}

func (s *targetSink[I, T]) flush() {}
