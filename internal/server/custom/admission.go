package custom

import (
	"context"
	"errors"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
)

var errTerminating = errors.New("create not allowed while custom resource definition is terminating")

// Admission refuses new objects of kinds whose definition is being deleted: their deletion would never end. And it
// establishes new definitions.
func (d *Definitions) Admission() registry.Admission {
	return registry.Admission{
		Name: "CustomResourceDefinitionTerminating",
		Create: func(ctx context.Context, c *registry.Change) (done func(*registry.Stored)) {
			if def, ok := c.Object.(*v1.CustomResourceDefinition); ok {
				return d.establishNew(ctx, def)
			}
			return nil
		},
		Mutate: func(_ context.Context, c *registry.Change) error {
			if c.Operation == registry.Create && c.Kind.Custom && d.terminating(c.Kind.GroupResource()) {
				return apierrors.NewForbidden(c.Kind.GroupResource(), c.Name, errTerminating)
			}
			return nil
		},
	}
}

func (d *Definitions) terminating(r schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.known[r.Resource+"."+r.Group]
	return known != nil && known.terminating
}
