package registry

import (
	"context"

	"github.com/millrace/millrace/server/resource"
)

// Admission has a say in changes. Either func may be nil.
type Admission struct {
	Name string
	// Mutate may change the new object or replace it, before the kind's rules run.
	Mutate func(context.Context, *Change) error
	// Validate may refuse it, after they have.
	Validate func(context.Context, *Change) error
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

// Admit asks the admission about something that is not a plain change of an object: an action or a connection.
func (r *Registry) Admit(ctx context.Context, c *Change) error {
	if err := r.mutate(ctx, c); err != nil {
		return err
	}
	return r.validate(ctx, c)
}

// Allocator gives an object what only one may have: a service its address and ports.
type Allocator interface {
	// Allocate completes obj, before it is checked; old is nil for a create. The undo takes back what was given, if the
	// change fails; done is called when it has succeeded and gives back what old had and obj has no longer.
	Allocate(ctx context.Context, kind *resource.Kind, obj, old resource.Object, dryRun bool) (undo, done func(), err error)
	// Release gives back all that a deleted object had.
	Release(ctx context.Context, kind *resource.Kind, obj resource.Object)
}
