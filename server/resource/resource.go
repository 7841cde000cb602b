// Package resource describes kinds of objects: their names, how they are stored, and the rules of their own that hold
// when one is created, changed or deleted.
//
// A kind is one Description, written in one place; Define turns it into a *Kind, which is all that the registry, the
// watch cache and the API server know of it. Nothing in those packages names a kind. The kinds of one API group live in
// one sub-package, which hands them out with a function Kinds; package builtin puts the groups together.
//
// What a Description may rely on:
//
//   - Rules run on objects that nobody else holds yet: they may change obj, never old.
//   - The registry has checked and completed the object's metadata (name, namespace, uid, times, generation, finalizers,
//     owner references, managed fields); rules deal with what is particular to the kind.
//   - An object with a status subresource has its status cleared when it is created, and keeps the old one through an
//     update of the main resource; an update of the status keeps everything else. Rules run after that and may refine it.
//   - Default runs on every object that comes from outside, before any other rule and again after a patch. It is
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

// Description is what one kind is, in its own Go type P (a pointer, such as *corev1.Pod). Only the first four fields are
// required.
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

	// Prefix is the path below the store's root, by default the resource's name. Kubernetes has a few historical ones.
	Prefix string
	// TTL makes objects expire (events).
	TTL time.Duration

	// Name checks the object's name, or a generateName when prefix is true; nil is a DNS subdomain.
	Name func(name string, prefix bool) []string
	// MetaAgain says that the kind's own rules for updates look at all of the metadata again, not only at what changed.
	MetaAgain bool
	// FreeFinalizers lets finalizers without a domain have any name.
	FreeFinalizers bool

	// Default fills in what was left out.
	Default func(obj P)
	// Restore completes what was read from the store with what its stored form has no room for (in protobuf, kind and
	// version of objects within objects).
	Restore func(obj P)
	// Rules hold for the main resource.
	Rules Rules[P]
	// Status, when not nil, adds the subresource "status" with the rules of its own.
	Status *Rules[P]
	// Views are further subresources through which a part of the object is read and updated, by name: "ephemeralcontainers",
	// "resize", "approval", "finalize".
	Views map[string]View[P]
	// Scale adds the subresource "scale".
	Scale *Scale[P]
	// Actions are subresources that take an object of another kind, or open a connection. What they do is registered with
	// the server; here they are named, so that routes and discovery know them.
	Actions []Action

	// StatusOnCreate lets a create set the status (nodes report theirs when they register).
	StatusOnCreate bool
	// Changed tells whether an update counts as a new generation, by default whether the spec is another.
	Changed func(obj, old P) bool
	// NoGeneration leaves metadata.generation alone. Otherwise a kind with a spec starts at 1 and counts changes of it.
	NoGeneration bool
	// UnconditionalUpdate accepts an update without a resourceVersion.
	UnconditionalUpdate bool
	// CreateOnUpdate lets a PUT of an object that does not exist create it.
	CreateOnUpdate bool
	// OrphanByDefault keeps dependents when a delete does not say what to do with them (ReplicationControllers, Jobs).
	OrphanByDefault bool
	// ReturnDeleted answers a delete with the object rather than with a Status.
	ReturnDeleted bool
	// Graceful tells for how many seconds an object that is being deleted may stay, given what was asked for (nil if
	// nothing was). Nil, or false, deletes at once.
	Graceful func(obj P, requested *int64) (seconds int64, graceful bool)
	// PrepareDelete is called on an object that got its deletionTimestamp and stays for now (its grace period or its
	// finalizers hold it).
	PrepareDelete func(obj P)
	// Held says that something other than metadata.finalizers keeps a deleted object (a namespace's spec.finalizers).
	Held func(obj P) bool

	// NoVerbs are those of the usual verbs that the kind does not offer (componentstatuses can only be read; reviews only
	// created).
	NoVerbs []string

	// Fields can be used in field selectors, besides metadata.name and metadata.namespace.
	Fields []Field
	// Columns and Row print the object as a line of a table; without them name and creation time are shown.
	Columns []metav1.TableColumnDefinition
	Row     func(obj P) Row

	// Deprecated is the warning that clients of the kind get with every answer.
	Deprecated string

	// Also are further versions or groups under which the same objects are served.
	Also []Serving[P]
}

// Rules are what a kind demands of a create or an update. Each may be nil.
type Rules[P Object] struct {
	// PrepareCreate drops what a create may not set and fills in what the server decides.
	PrepareCreate func(ctx context.Context, obj P)
	// PrepareUpdate restores what this update may not change and fills in what the server decides.
	PrepareUpdate func(ctx context.Context, obj, old P)
	// Validate checks a new object.
	Validate func(ctx context.Context, obj P) field.ErrorList
	// ValidateUpdate checks a changed one, all of it: it calls what Validate calls where that holds too.
	ValidateUpdate func(ctx context.Context, obj, old P) field.ErrorList
	// Warnings are sent to the caller with the answer. old is nil for a create.
	Warnings func(ctx context.Context, obj, old P) []string
}

// View is a subresource through which part of an object is changed.
type View[P Object] struct {
	Rules Rules[P]
	// Verbs are those offered: by default get, patch, update.
	Verbs []string
}

// Scale tells where a kind keeps its number of replicas.
type Scale[P Object] struct {
	// Replicas points to the wanted number, making room for it.
	Replicas func(obj P) *int32
	// Status tells the present number.
	Status func(obj P) int32
	// Selector tells which pods are meant, as text.
	Selector func(obj P) string
}

// Action is a subresource of another kind than its parent: pods/binding, pods/exec, serviceaccounts/token.
type Action struct {
	Name string
	// Body is the kind that is posted, and whose name discovery shows.
	Body schema.GroupVersionKind
	// Verbs are what it offers: "create", or "get" and "create" for a session.
	Verbs []string
	// New makes an empty body; nil for connections.
	New func() runtime.Object
}

// Field is a path that field selectors may use.
type Field struct {
	// Label is its name in selectors.
	Label string
	// Path leads to the value, in JSON names ("spec.nodeName"). Alternatives are separated by "|"; the first that is not
	// empty counts. Strings, booleans and integers can be selected on. Empty means the same as Label.
	Path string
	// Indexed makes a watch for one value of it cost nothing when other values change.
	Indexed bool
}

// Row is an object as a line of a table.
type Row struct {
	Cells      []any
	Conditions []metav1.TableRowCondition
}

// Serving is a further face of a kind.
type Serving[P Object] struct {
	Group, Version, Kind string
	// New makes an empty object of this face.
	New func() runtime.Object
	// From makes this face of an object of the kind; To makes the kind's of this face.
	From func(P) runtime.Object
	To   func(runtime.Object) P
	// Fields maps the labels that field selectors may use here to those of the kind; nil means the same ones.
	Fields map[string]string
}
