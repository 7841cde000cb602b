// Package concern is what webhooks and policies have in common: it finds those that a change is about, applies what they make of its object, and
// remembers until the change's second round which of them are to be asked again.
//
// What is guaranteed: what a Finder finds is never older than what was acknowledged when it was asked. A change of webhooks and policies
// themselves, and a review of permissions, concerns none of them. Finding none costs a lookup.
package concern

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/server/admission/attributes"
	"github.com/millrace/millrace/server/admission/follow"
	"github.com/millrace/millrace/server/admission/match"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
)

// Finder finds those of some kinds of configurations that a change may be about. Close lets go of what it follows.
type Finder[C any] struct {
	cluster *attributes.Cluster
	index   *follow.Index[*match.Table[C]]
}

// NewFinder follows kinds of the group admissionregistration.k8s.io, of which compile makes a table.
func NewFinder[C any](cluster *attributes.Cluster, compile func([]resource.Object) *match.Table[C], kinds ...string) *Finder[C] {
	o := follow.Options[*match.Table[C]]{Registry: cluster.Registry, Shared: cluster.Shared, Make: compile}
	for _, k := range kinds {
		o.Kinds = append(o.Kinds, schema.GroupResource{Group: admissionv1.GroupName, Resource: k})
	}
	return &Finder[C]{cluster, follow.New(o)}
}

// Close lets go of the configurations.
func (f *Finder[C]) Close() { f.index.Close() }

// Find lists the candidates for a change, and shows it as they see it. An error means that the store does not answer.
func (f *Finder[C]) Find(ctx context.Context, c *registry.Change) (*attributes.Request, []match.Candidate[C], error) {
	if attributes.Exempt(c) {
		return nil, nil, nil
	}
	all, err := f.index.Now(ctx)
	if err != nil || len(all.All) == 0 {
		return nil, nil, err
	}
	r := f.cluster.Of(ctx, c)
	return r, all.Find(r.Place(), f.cluster.Registry().Catalogue, c.Kind), nil
}
