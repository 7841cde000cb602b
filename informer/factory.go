package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Factory shares informers, so that parts of a program that need the same objects keep one copy of them. The zero value
// is ready to use.
type Factory struct {
	options FactoryOptions

	mu         sync.Mutex
	shared     map[identity]member // guarded by mu
	runContext context.Context     // guarded by mu: set while running
	stop       context.CancelFunc  // guarded by mu: set while running
	ended      bool                // guarded by mu
	running    sync.WaitGroup
	errs       []error // guarded by mu: the errors that informers returned
}

// member is an informer with objects of any type, as a factory needs it.
type member interface {
	Run(ctx context.Context) error
	Synced(ctx context.Context) error
}

// identity is equal for two informers if their caches would be equal.
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
	// OneServer says that all sources are of one server and have the same permissions there, whatever client they use.
	// It is for programs whose parts have clients of their own.
	OneServer bool
	// WatchFor is that of all informers whose options have none.
	WatchFor time.Duration
}

// NewFactory returns a factory without informers.
func NewFactory(options FactoryOptions) *Factory { return &Factory{options: options} }

// Share returns the factory's informer for a source. It makes one if there is none with the same type of objects,
// client (unless OneServer is set), resource, namespace, selectors and name. All other options are those of the first
// caller; a caller that needs different ones sets a name. Sources without an identity are never shared: those made of
// functions, and those whose clients do not tell what they list. If the factory runs, so does the informer.
func Share[T Object](f *Factory, source Source[T], options Options[T]) *Shared[T] {
	id := identify(source, reflect.TypeFor[T](), options.LabelSelector, options.FieldSelector, options.Name, f.options.OneServer)
	options.WatchFor = cmp.Or(options.WatchFor, f.options.WatchFor)
	return share(f, id, func() *Shared[T] { return New(source, options) })
}

// ShareProjection is Share for an informer that Project makes. Projections of the same objects to the same type are
// considered equal, so only the first projection function is used.
func ShareProjection[T Object, P any](f *Factory, source Source[T], project func(T) P, options Options[P]) *Shared[P] {
	id := identify(source, reflect.TypeFor[P](), options.LabelSelector, options.FieldSelector, options.Name, f.options.OneServer)
	options.WatchFor = cmp.Or(options.WatchFor, f.options.WatchFor)
	return share(f, id, func() *Shared[P] { return Project(source, project, options) })
}

func share[T any](f *Factory, id identity, create func() *Shared[T]) *Shared[T] {
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
	if f.runContext != nil {
		f.startLocked(informer)
	}
	return informer
}

// identified is a source that can tell what it lists.
type identified interface {
	identity() (server any, scope string, known bool)
}

func identify[T Object](source Source[T], kept reflect.Type, labels, fields, name string, oneServer bool) identity {
	id := identity{kind: reflect.TypeFor[T](), kept: kept, labels: labels, fields: fields, name: name}
	server, scope, known := identityOf(source)
	switch {
	case !known:
		id.server = new(int64) // equal to no other
	case !oneServer:
		id.server = server
	}
	id.scope = scope
	return id
}

// identityOf returns what distinguishes a source from others with the same type of objects. Without an identity known
// is false.
func identityOf(source any) (server any, scope string, known bool) {
	if able, ok := source.(identified); ok {
		return able.identity()
	}
	return byPointer(source)
}

// byPointer returns the identity of a value that has none but its address.
func byPointer(value any) (server any, scope string, known bool) {
	return value, fmt.Sprintf("%T %p", value, value), distinct(value)
}

// distinct reports whether two such values are equal only if they are the same thing.
func distinct(value any) bool {
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.Type().Elem().Size() > 0 // pointers to values of size zero may all be equal
}

// identity reads client-go's clients: the generated ones have methods for their REST client, namespace and resource.
func (s *typedSource[T, L]) identity() (server any, scope string, known bool) {
	if typed, ok := s.client.(interface {
		GetClient() rest.Interface
		GetNamespace() string
	}); ok {
		return typed.GetClient(), resourceOf(s.client) + "/" + typed.GetNamespace(), true
	}
	if tracker, scope := fakeIdentity(s.client); tracker != nil {
		return tracker, scope, true
	}
	if s.scope == "" {
		return byPointer(s.client)
	}
	return s.client, s.scope, distinct(s.client)
}

// fakeIdentity reads the clients of client-go's fake clientsets. These are new for each call, and share the tracker
// that records their actions.
func fakeIdentity(client any) (tracker any, scope string) {
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

// Start starts all informers, and from now on each new shared one at once. They run until the context ends or Shutdown
// is called.
func (f *Factory) Start(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.runContext != nil {
		return
	}
	f.runContext, f.stop = context.WithCancel(ctx)
	for _, informer := range f.shared {
		f.startLocked(informer)
	}
}

func (f *Factory) startLocked(informer member) {
	if f.ended {
		return
	}
	f.running.Go(func() {
		if err := informer.Run(f.runContext); err != nil {
			f.mu.Lock()
			f.errs = append(f.errs, err)
			f.mu.Unlock()
		}
	})
}

// Synced waits until all informers that are shared now have synced. The error names those that have not, and the
// reasons.
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

// Shutdown stops all informers and waits for them. No informer is started afterwards.
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

// Run calls Start, and Shutdown when the context ends.
func (f *Factory) Run(ctx context.Context) error {
	f.Start(ctx)
	<-ctx.Done()
	return f.Shutdown()
}
