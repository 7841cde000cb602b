package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Factory shares informers, so that parts of a program that look at the same objects keep one copy of them. The zero
// value is ready.
type Factory struct {
	options FactoryOptions

	mu      sync.Mutex
	shared  map[identity]member // guarded by mu
	life    context.Context     // guarded by mu: set while running
	stop    context.CancelFunc  // guarded by mu: set while running
	ended   bool                // guarded by mu
	running sync.WaitGroup
	errs    []error // guarded by mu: what informers ended with
}

// member is what a factory asks of an informer, whatever the type of its objects.
type member interface {
	Run(ctx context.Context) error
	Synced(ctx context.Context) error
}

// identity tells whether two informers would hold the same.
type identity struct {
	kind           reflect.Type // of the objects that are listed
	kept           reflect.Type // of the objects in the cache
	server         any
	scope          string
	labels, fields string
	name           string
}

// FactoryOptions configure a factory. None need to be set.
type FactoryOptions struct {
	// OneServer says that all sources are of the same server and may read the same there, whatever client they use: the
	// parts of a program that have a client each, for example.
	OneServer bool
}

// NewFactory returns a factory without informers.
func NewFactory(options FactoryOptions) *Factory { return &Factory{options: options} }

// Share returns the factory's informer for a source. It makes one if there is none with the same type of objects, client
// (unless all are of one server), resource, namespace, selectors and name. The other options are those of the first
// caller; a caller that needs different ones gives a name. Sources that cannot be told apart are never shared: those made
// of functions, and those of clients that do not say what they list. If the factory runs, so does the informer.
func Share[T Object](f *Factory, source Source[T], options Options[T]) *Shared[T] {
	id := identify(source, reflect.TypeFor[T](), options.LabelSelector, options.FieldSelector, options.Name, f.options.OneServer)
	return joined(f, id, func() *Shared[T] { return New(source, options) })
}

// ShareProjection is Share for an informer that Project makes. One factory's projections of the same objects to the same
// type are the same.
func ShareProjection[T Object, P any](f *Factory, source Source[T], project func(T) P, options Options[P]) *Shared[P] {
	id := identify(source, reflect.TypeFor[P](), options.LabelSelector, options.FieldSelector, options.Name, f.options.OneServer)
	return joined(f, id, func() *Shared[P] { return Project(source, project, options) })
}

func joined[T any](f *Factory, id identity, create func() *Shared[T]) *Shared[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.shared[id]; ok {
		return known.(*Shared[T])
	}
	informer := create()
	if f.shared == nil {
		f.shared = map[identity]member{}
	}
	f.shared[id] = informer
	if f.life != nil {
		f.startLocked(informer)
	}
	return informer
}

// identified is a source that may know what it lists.
type identified interface {
	identity() (server any, scope string, known bool)
}

func identify[T Object](source Source[T], kept reflect.Type, labels, fields, name string, oneServer bool) identity {
	id := identity{kind: reflect.TypeFor[T](), kept: kept, labels: labels, fields: fields, name: name}
	server, scope, known := identityOf(source)
	switch {
	case !known:
		id.server = new(int64) // unlike all others
	case !oneServer:
		id.server = server
	}
	id.scope = scope
	return id
}

// identityOf returns what tells a source from others with the same type of objects, if there is anything.
func identityOf(source any) (server any, scope string, known bool) {
	if able, ok := source.(identified); ok {
		return able.identity()
	}
	return byPointer(source)
}

// byPointer is the identity of a value that is known by nothing but its place in memory.
func byPointer(value any) (server any, scope string, known bool) {
	return value, fmt.Sprintf("%T %p", value, value), distinct(value)
}

// distinct reports whether comparing a value with another one tells whether they are the same thing.
func distinct(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.Type().Elem().Size() > 0 // pointers to nothing may all be equal
}

// identity looks into client-go's clients: the generated ones tell their connection, their namespace and their resource.
func (s *typedSource[T, L]) identity() (server any, scope string, known bool) {
	if typed, ok := s.client.(interface {
		GetClient() rest.Interface
		GetNamespace() string
	}); ok {
		return typed.GetClient(), resourceOf(s.client) + "/" + typed.GetNamespace(), true
	}
	if tracker, scope := fakeBehind(s.client); tracker != nil {
		return tracker, scope, true
	}
	if s.scope == "" {
		return byPointer(s.client)
	}
	return s.client, s.scope, distinct(s.client)
}

// fakeBehind looks into the clients of client-go's fake clientsets: they are made anew each time, and have in common
// what they all record their actions in.
func fakeBehind(client any) (tracker any, scope string) {
	scoped, ok := client.(interface {
		Namespace() string
		Resource() schema.GroupVersionResource
	})
	if !ok {
		return nil, ""
	}
	for v := reflect.Indirect(reflect.ValueOf(client)); v.Kind() == reflect.Struct; v = reflect.Indirect(v) {
		v = v.FieldByName("Fake")
		if v.Kind() != reflect.Pointer || v.IsNil() || !v.CanInterface() {
			break
		}
		tracker = v.Interface()
	}
	return tracker, scoped.Resource().String() + "/" + scoped.Namespace()
}

// Start starts all informers, and from now on each that is shared. They run until the context ends or Shutdown.
func (f *Factory) Start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life != nil {
		return
	}
	f.life, f.stop = context.WithCancel(ctx)
	for _, informer := range f.shared {
		f.startLocked(informer)
	}
}

func (f *Factory) startLocked(informer member) {
	if f.ended {
		return
	}
	f.running.Go(func() {
		if err := informer.Run(f.life); err != nil {
			f.mu.Lock()
			f.errs = append(f.errs, err)
			f.mu.Unlock()
		}
	})
}

// Synced waits until all informers that are shared now have synced. The error names those that have not, and why.
func (f *Factory) Synced(ctx context.Context) error {
	f.mu.Lock()
	var members []member
	for _, informer := range f.shared {
		members = append(members, informer)
	}
	f.mu.Unlock()
	var errs []error
	for _, informer := range members {
		errs = append(errs, informer.Synced(ctx))
	}
	return errors.Join(errs...)
}

// Shutdown stops all informers and waits for them. Afterwards none is started any more.
func (f *Factory) Shutdown() error {
	f.mu.Lock()
	f.ended = true
	if f.stop != nil {
		f.stop()
	}
	f.mu.Unlock()
	f.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.errs...)
}

// Run is Start, and Shutdown when the context ends.
func (f *Factory) Run(ctx context.Context) error {
	f.Start(ctx)
	<-ctx.Done()
	return f.Shutdown()
}
