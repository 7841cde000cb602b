package registry

import (
	"context"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// Operation is what a request does to an object.
type Operation string

const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// Change is a write that is about to happen. The context says who requests it (resource.CallFrom).
type Change struct {
	Operation Operation
	Kind      *resource.Kind
	// View is the subresource, or empty.
	View            string
	Namespace, Name string
	// Object is the new state, nil for a delete; Old is the current one, nil for a create. Both are of the Kind,
	// whatever the Face or the View is. A mutating step may change Object or replace it; the result is stored.
	Object, Old resource.Object
	// Body is the body of an action or a connection, and BodyKind its kind. A mutating step may replace it.
	Body     runtime.Object
	BodyKind schema.GroupVersionKind
	// Collection says that the object is deleted by a deletecollection.
	Collection bool
	// WriteOptions are those of the request: among them the face, dry run, and the receiver of warnings.
	WriteOptions
	// Round is 0, or 1 when the mutating steps run a second time because one of them called AskAgain.
	Round int
	// Kept is what steps keep for the second round, by their names.
	Kept map[string]any

	again        bool
	requirements []Requirement
	// deleting are the options of a delete.
	deleting *v1.DeleteOptions
}

// AskAgain makes all mutating steps run once more after the last, because the object has changed since the earlier ones
// saw it.
func (c *Change) AskAgain() { c.again = true }

// Requirement is another object that a new one needs: the new one is stored only while that object is in the state that
// a step has seen, in one transaction of the store. So what nobody may outlive, such as a namespace, is left behind by
// no create, however long that takes, and on whichever server. Another change of that object in between costs the
// create a second transaction. An update requires nothing: what it changes exists.
type Requirement struct {
	// Key is the object's key in the store, and Revision that of the state which the step has seen.
	Key      string
	Revision store.Revision
	// Renew reads the object's newest state and returns its revision, or refuses the new object. It is called if the
	// object is in another state when the new object is to be stored, and in a dry run.
	Renew func(context.Context) (store.Revision, error)
}

// Require adds a requirement to a create. It replaces an earlier one with the same key.
func (c *Change) Require(r Requirement) {
	for i := range c.requirements {
		if c.requirements[i].Key == r.Key {
			c.requirements[i] = r
			return
		}
	}
	c.requirements = append(c.requirements, r)
}

func (c *Change) conditions() []store.Condition {
	if len(c.requirements) == 0 {
		return nil
	}
	out := make([]store.Condition, len(c.requirements))
	for i, r := range c.requirements {
		out[i] = store.Condition{Key: r.Key, Revision: r.Revision}
	}
	return out
}

// renew brings the requirements up to date, or says why the object cannot be created any more.
func (c *Change) renew(ctx context.Context) (err error) {
	for i := range c.requirements {
		r := &c.requirements[i]
		if r.Revision, err = r.Renew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Keep keeps something of a step for the second round.
func (c *Change) Keep(step string, what any) {
	if c.Kept == nil {
		c.Kept = map[string]any{}
	}
	c.Kept[step] = what
}

// Served returns the face that the request uses.
func (c *Change) Served() *resource.Face {
	if c.Face == nil && len(c.Kind.Faces) > 0 {
		return c.Kind.Faces[0]
	}
	return c.Face
}

// Options returns the options of the request in the form that webhooks get; nil for a connection.
func (c *Change) Options() runtime.Object {
	var dryRun []string
	if c.DryRun {
		dryRun = []string{v1.DryRunAll}
	}
	kind := func(name string) v1.TypeMeta {
		return v1.TypeMeta{APIVersion: v1.SchemeGroupVersion.String(), Kind: name}
	}
	switch c.Operation {
	case Create:
		return &v1.CreateOptions{TypeMeta: kind("CreateOptions"), DryRun: dryRun, FieldManager: c.Asked.FieldManager, FieldValidation: c.Asked.FieldValidation}
	case Update:
		return &v1.UpdateOptions{TypeMeta: kind("UpdateOptions"), DryRun: dryRun, FieldManager: c.Asked.FieldManager, FieldValidation: c.Asked.FieldValidation}
	case Delete:
		o := &v1.DeleteOptions{}
		if c.deleting != nil {
			o = c.deleting.DeepCopy()
		}
		o.TypeMeta = kind("DeleteOptions")
		return o
	}
	return nil
}

// Tell adds a warning to the answer.
func (c *Change) Tell(text string) {
	if c.Warn != nil {
		c.Warn(text)
	}
}

// Note adds an annotation to the audit event of the request.
func (c *Change) Note(key, value string) {
	if c.Annotate != nil {
		c.Annotate(key, value)
	}
}
