package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// Admission is a step that may change or refuse a change. Each func may be nil.
type Admission struct {
	Name string
	// Mutate may change the new object or replace it. It runs before the kind's rules.
	Mutate func(context.Context, *Change) error
	// Check finds mistakes in an object that its kind's rules cannot see, because they depend on the caller or on
	// another object. It runs with the rules, and its errors are in the same answer as theirs.
	Check func(context.Context, *Change) field.ErrorList
	// Validate may refuse the change. It runs after the kind's rules.
	Validate func(context.Context, *Change) error
	// Create runs right before a new object is stored, which nobody has refused, and the func that it returns
	// afterwards, with what was stored, or with nil if that has failed. It may return nil.
	Create func(context.Context, *Change) (done func(*Stored))
}

func (r *Registry) mutate(ctx context.Context, c *Change) error {
	err := r.mutateOnce(ctx, c)
	if err != nil || !c.again {
		return err
	}
	c.Round = 1
	return r.mutateOnce(ctx, c)
}

func (r *Registry) mutateOnce(ctx context.Context, c *Change) error {
	for _, a := range r.Admission {
		if a.Mutate == nil {
			continue
		}
		if err := a.Mutate(ctx, c); err != nil {
			return statusOf(err, c.Kind.GroupResource(), c.Name)
		}
	}
	return nil
}

func (r *Registry) check(ctx context.Context, c *Change) field.ErrorList {
	var errs field.ErrorList
	for _, a := range r.Admission {
		if a.Check != nil {
			errs = append(errs, a.Check(ctx, c)...)
		}
	}
	return errs
}

func (r *Registry) validate(ctx context.Context, c *Change) error {
	for _, a := range r.Admission {
		if a.Validate == nil {
			continue
		}
		if err := a.Validate(ctx, c); err != nil {
			return statusOf(err, c.Kind.GroupResource(), c.Name)
		}
	}
	return nil
}

func (r *Registry) create(ctx context.Context, c *Change) (done func(*Stored)) {
	var all []func(*Stored)
	for _, a := range r.Admission {
		if a.Create == nil {
			continue
		}
		if f := a.Create(ctx, c); f != nil {
			all = append(all, f)
		}
	}
	return func(stored *Stored) {
		for _, f := range all {
			f(stored)
		}
	}
}

// Admit runs the admission steps for a request that does not simply change an object: an action or a connection.
func (r *Registry) Admit(ctx context.Context, c *Change) error {
	if err := r.mutate(ctx, c); err != nil {
		return err
	}
	return r.validate(ctx, c)
}

// Allocator gives an object values that no other object may have, such as the address and ports of a service.
type Allocator interface {
	// Allocate sets allocated values in obj before it is validated; old is nil for a create. undo releases them if the
	// change fails. done is called if it succeeds, and releases what old had and obj no longer has.
	Allocate(ctx context.Context, kind *resource.Kind, obj, old resource.Object, dryRun bool) (undo, done func(), err error)
	// Release releases everything that a deleted object had.
	Release(ctx context.Context, kind *resource.Kind, obj resource.Object)
}
