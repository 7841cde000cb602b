// Package resource describes kinds of objects: their names, how they are stored, and the kind's own rules for creates,
// updates and deletes.
//
// A kind is one Description, written in one place. Define converts it to a *Kind, which is all that the registry, the
// watch cache and the API server use; nothing in those packages names a kind. The kinds of one API group are in one
// sub-package with a function Kinds. Package builtin combines the groups.
//
// A Description may rely on the following:
//
//   - Rules get objects that are not shared: they may modify obj, but never old.
//   - The registry has validated and completed the object's metadata (name, namespace, uid, times, generation,
//     finalizers, owner references, managed fields). Rules concern only what is special about the kind.
//   - If an object has a status subresource, a create clears its status, an update of the main resource keeps the old
//     status, and an update of the status keeps everything else. Rules run after that and may refine it.
//   - Default runs on every object that a client sends, before all other rules, and again after a patch. It is
//     idempotent.
package resource

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object is a Kubernetes object: it has metadata and can be copied.
type Object interface {
	metav1.Object
	runtime.Object
}

// Description describes one kind with its own Go type P (a pointer, such as *corev1.Pod). Only the first four fields
// are required.
type Description[P Object] struct {
	Group    string
	Version  string
	Kind     string
	Resource string // lower-case plural

	Singular   string // defaults to the lower-case Kind
	ListKind   string // defaults to Kind + "List"
	Namespaced bool
	ShortNames []string
	Categories []string

	// Prefix is the path below the store's root, by default the resource's name. Some kinds of Kubernetes have a
	// different one for historical reasons.
	Prefix string
	// TTL makes objects expire, as events do.
	TTL time.Duration

	// Name validates the object's name, or its generateName if prefix is true. Nil requires a DNS subdomain.
	Name func(name string, prefix bool) []string
	// ValidateMetaTwice says that the kind's rules for updates validate all metadata again, not only what changed.
	ValidateMetaTwice bool
	// FreeFinalizers allows any finalizer without a domain.
	FreeFinalizers bool

	// Default sets default values.
	Default func(obj P)
	// Restore sets what the stored form cannot hold: in protobuf, kind and version of nested objects.
	Restore func(obj P)
	// Rules are the rules of the main resource.
	Rules Rules[P]
	// Status, if not nil, adds the subresource "status" with its own rules.
	Status *Rules[P]
	// Views are further subresources through which a part of the object is read and updated, by name:
	// "ephemeralcontainers", "resize", "approval", "finalize".
	Views map[string]View[P]
	// Scale adds the subresource "scale".
	Scale *Scale[P]
	// Actions are subresources that take an object of another kind, or open a connection. Their implementations are
	// registered with the server; they are named here for routes and discovery.
	Actions []Action

	// StatusOnCreate allows a create to set the status, as nodes do when they register.
	StatusOnCreate bool
	// Changed reports whether an update increases the generation; by default, whether the spec has changed.
	Changed func(obj, old P) bool
	// NoGeneration leaves metadata.generation alone. Otherwise the generation of a kind with a spec starts at 1 and
	// counts changes of the spec.
	NoGeneration bool
	// UnconditionalUpdate allows an update without a resourceVersion.
	UnconditionalUpdate bool
	// CreateOnUpdate allows a PUT to create the object.
	CreateOnUpdate bool
	// OrphanByDefault keeps dependents if a delete does not say otherwise, as for ReplicationControllers and Jobs.
	OrphanByDefault bool
	// ReturnDeleted answers a delete with the object instead of a Status.
	ReturnDeleted bool
	// Graceful returns the grace period of a delete, given the requested one (nil if none was). If Graceful is nil or
	// returns false, the object is deleted at once.
	Graceful func(obj P, requested *int64) (seconds int64, graceful bool)
	// PrepareDelete is called on an object that has got its deletionTimestamp and stays because of its grace period or
	// its finalizers.
	PrepareDelete func(obj P)
	// Held reports whether something other than metadata.finalizers keeps a deleted object, as a namespace's
	// spec.finalizers do.
	Held func(obj P) bool

	// NoVerbs are the usual verbs that the kind does not support: componentstatuses can only be read, reviews only
	// created.
	NoVerbs []string

	// Fields are selectable fields besides metadata.name and metadata.namespace.
	Fields []Field
	// Columns and Row are the object's columns and row in a table; without them name and creation time are shown.
	Columns []metav1.TableColumnDefinition
	Row     func(obj P) Row

	// Deprecated is the warning that clients of the kind get with every response.
	Deprecated string

	// Also are further versions or groups in which the same objects are served.
	Also []Serving[P]
	// Forms are further versions in which objects may be stored.
	Forms []Form[P]
}

// Rules are a kind's rules for creates and updates. Each may be nil.
type Rules[P Object] struct {
	// PrepareCreate removes what a create must not set and sets what the server decides.
	PrepareCreate func(ctx context.Context, obj P)
	// PrepareUpdate restores what the update must not change and sets what the server decides.
	PrepareUpdate func(ctx context.Context, obj, old P)
	// Validate validates a new object.
	Validate func(ctx context.Context, obj P) field.ErrorList
	// ValidateUpdate validates a changed object completely: it calls Validate's checks where they apply.
	ValidateUpdate func(ctx context.Context, obj, old P) field.ErrorList
	// Warnings returns warnings for the client. old is nil for a create.
	Warnings func(ctx context.Context, obj, old P) []string
}

// View is a subresource through which part of an object is changed.
type View[P Object] struct {
	Rules Rules[P]
	// Verbs are the supported verbs: by default get, patch, update.
	Verbs []string
}

// Scale says where a kind has its number of replicas.
type Scale[P Object] struct {
	// Replicas returns a pointer to the desired number, and allocates it if needed.
	Replicas func(obj P) *int32
	// Status returns the current number.
	Status func(obj P) int32
	// Selector returns the selector of the pods as text.
	Selector func(obj P) string
}

// Action is a subresource of another kind than its parent: pods/binding, pods/exec, serviceaccounts/token.
type Action struct {
	Name string
	// Body is the kind of the request body, which discovery shows.
	Body schema.GroupVersionKind
	// Verbs are the supported verbs: "create", or "get" and "create" for a session.
	Verbs []string
	// New returns an empty body; nil for connections.
	New func() runtime.Object
}

// Field is a selectable field.
type Field struct {
	// Label is its name in selectors.
	Label string
	// Path is the path to the value in JSON names ("spec.nodeName"). Alternatives are separated by "|"; the first value
	// that is not empty counts. The value may be a string, a boolean or an integer. An empty Path means Label.
	Path string
	// Indexed gives each value its own topic: a watch for one value costs nothing when other values change.
	Indexed bool
}

// Row is an object as a row of a table.
type Row struct {
	Cells      []any
	Conditions []metav1.TableRowCondition
}

// Serving is a further face of a kind.
type Serving[P Object] struct {
	Group, Version, Kind string
	// Optional says that clients can use this face only if the runtime configuration turns it on.
	Optional bool
	// New returns an empty object of this face.
	New func() runtime.Object
	// From converts an object of the kind to this face; To converts it back.
	From func(P) runtime.Object
	To   func(runtime.Object) P
	// Fields maps this face's names in field selectors to those of the kind; nil means that they are the same.
	Fields map[string]string
}
