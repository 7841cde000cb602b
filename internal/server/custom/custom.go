// Package custom serves custom resources: it follows the CustomResourceDefinitions in the log, and puts the kinds that
// they define into the registry.
//
// What is guaranteed:
//
//   - After CatchUp, all definitions that were Established before the call are served. So a path that is not known is
//     known to name nothing, on each of several API servers.
//   - After Settle, all changes of definitions that this server acknowledged before the call are in use: the request
//     that follows a change of a schema is checked by the new one.
//   - A change of a definition ends the watches of those versions whose objects it shows in another way, and no other.
//   - A definition whose names collide with those of another is not served before these are free.
//   - A definition whose plural or kind is that of a built-in kind of its group is never served, whatever its stored
//     conditions say: built-in kinds keep their names. This is stricter than Kubernetes, which serves it in versions
//     that the built-in kind does not have.
//   - A definition that cannot be read is not taken for one that does not exist: Unreadable names it, discovery shows
//     its group as incomplete, and requests for its objects get 503 unless an earlier form of it is served.
//   - A deleted definition stays until its objects are gone. That can be interrupted at any time, and goes on after a
//     restart.
//   - Schemas, rules and columns are compiled when they are first needed. Until then a definition costs its stored
//     bytes and some kilobytes. A schema and its rules that nobody has used for 10 to 20 minutes are dropped, and
//     compiled again when needed.
//
// Conditions are set by every server alike; each change is a compare-and-swap, so servers do not disturb each other.
package custom

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource/tree"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/webhook"
)

// Options are what definitions are served with.
type Options struct {
	Registry *registry.Registry
	// Fresh tells how far the log was when it was asked, once the cache is as far.
	Fresh func(context.Context) (store.Revision, error)
	// Webhooks call the webhooks that convert objects. Without it objects stay in the version that they are stored in.
	Webhooks *webhook.Client
	Logger   *slog.Logger
}

// Definitions serves what the definitions in a registry define.
type Definitions struct {
	o           Options
	storage     *registry.Storage
	conversions conversions
	seen        atomic.Int64 // the revision up to which all definitions have been read

	mu     sync.Mutex // guards what follows
	stream *follow.Stream
	known  map[string]*record // by the definition's name
	gone   map[string]*record // those of known that have not come again since the stream began anew
	todo   map[string]bool    // definitions whose conditions may have to change
	more   chan struct{}      // closed when there is something to do or to read

	ending sync.WaitGroup
}

// record is what is known of a stored definition.
type record struct {
	revision store.Revision
	group    string
	accepted v1.CustomResourceDefinitionNames
	served   *definition // nil if it is not
	ending   bool        // this server is deleting its objects
	settling bool        // this server is creating it, and sets its conditions with that
	// terminating says that the definition is being deleted.
	terminating bool
	// unreadable says why the stored definition cannot be read or served. An earlier one may be served still.
	unreadable error
}

// Resource is where definitions are served.
var Resource = schema.GroupResource{Group: v1.GroupName, Resource: "customresourcedefinitions"}

// New finds the storage of the definitions. Nothing is served before Prepare or Run.
func New(o Options) (*Definitions, error) {
	k, ok := o.Registry.Catalogue.Kind(Resource)
	if !ok {
		return nil, fmt.Errorf("%v are not in the catalogue", Resource)
	}
	storage, err := o.Registry.Storage(k)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	convert := conversions{webhooks: o.Webhooks, kept: tree.NewConverted(convertedBytes)}
	d := &Definitions{o: o, storage: storage, conversions: convert, known: map[string]*record{}, todo: map[string]bool{}, more: make(chan struct{})}
	d.stream = follow.NewStream(follow.StreamOptions{
		Registry: o.Registry, Kinds: []schema.GroupResource{Resource}, Freshness: registry.Freshness{Any: true},
		Begin: d.beginLocked, Receive: d.receiveLocked, Logger: o.Logger,
	})
	return d, nil
}

// decode reads a stored definition.
func (d *Definitions) decode(ctx context.Context, value []byte, rev store.Revision) (*v1.CustomResourceDefinition, error) {
	o, err := d.storage.Kind().Decode(ctx, value, rev.String())
	if err != nil {
		return nil, err
	}
	return o.(*v1.CustomResourceDefinition), nil
}

// decodeBrief reads a stored definition without its schemas, and the digests of these.
func (d *Definitions) decodeBrief(ctx context.Context, value []byte, rev store.Revision) (*v1.CustomResourceDefinition, []digest, error) {
	brief, digests, err := withoutSchemas(value)
	if err != nil {
		return nil, nil, err
	}
	def, err := d.decode(ctx, brief, rev)
	return def, digests, err
}

// retryAfter is how long is waited before something that failed is tried again.
const retryAfter = time.Second
