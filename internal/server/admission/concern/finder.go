// Package concern is what webhooks and policies have in common: it finds those that a change is about, applies what
// they make of its object, and remembers until the change's second round which of them are to be asked again.
//
// What is guaranteed: what a Finder finds is never older than what was acknowledged when it was asked. Static
// configurations come before those of the API. A review of permissions concerns none, and a change of webhooks and
// policies themselves only static ones. Finding none costs a lookup.
package concern

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/admission/attributes"
	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/follow"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Static are configurations that are not in the API.
type Static interface {
	// Objects are the present ones, which never change: in the order of the kinds and of their names.
	Objects() []resource.Object
	// Changed is closed when there are others.
	Changed() <-chan struct{}
}

// Options say what a Finder finds. Cluster and Compile are required.
type Options[C any] struct {
	Cluster *attributes.Cluster
	// Compile makes a table of objects, in which some candidates come first.
	Compile func(objects []resource.Object, first []C) *match.Table[C]
	// Static are configurations that are not in the API, if there are such.
	Static Static
	// Kinds are resources of the group admissionregistration.k8s.io.
	Kinds []string
}

// Finder finds those of some kinds of configurations that a change may be about. Close lets go of what it follows.
type Finder[C any] struct {
	o      Options[C]
	tables *follow.Value[tables[C]]
}

// tables are what a Finder looks into. Without static configurations there is no table of them.
type tables[C any] struct {
	all, static *match.Table[C]
	from        <-chan struct{} // closed when the static ones have changed
}

// NewFinder makes a finder.
func NewFinder[C any](o Options[C]) *Finder[C] {
	f := &Finder[C]{o: o}
	followed := follow.ValueOptions[tables[C]]{Registry: o.Cluster.Registry, Shared: o.Cluster.Shared, Make: f.compiler()}
	if o.Static != nil {
		followed.Besides = o.Static.Changed
	}
	for _, k := range o.Kinds {
		followed.Kinds = append(followed.Kinds, schema.GroupResource{Group: admissionv1.GroupName, Resource: k})
	}
	f.tables = follow.NewValue(followed)
	return f
}

// compiler compiles the objects of the API each time, and static ones when they have changed.
func (f *Finder[C]) compiler() func([]resource.Object) tables[C] {
	if f.o.Static == nil {
		return func(objects []resource.Object) tables[C] { return tables[C]{all: f.o.Compile(objects, nil)} }
	}
	var last tables[C]
	return func(objects []resource.Object) tables[C] {
		if from := f.o.Static.Changed(); from != last.from {
			last = tables[C]{static: f.o.Compile(f.o.Static.Objects(), nil), from: from}
		}
		last.all = f.o.Compile(objects, last.static.All)
		return last
	}
}

// Close lets go of the configurations.
func (f *Finder[C]) Close() { f.tables.Close() }

// Find lists the candidates for a change, and shows it as they see it. An error means that the store does not answer.
func (f *Finder[C]) Find(ctx context.Context, c *registry.Change) (*attributes.Request, []match.Candidate[C], error) {
	onlyStatic := attributes.IsConfiguration(c)
	if attributes.IsReview(c) || onlyStatic && f.o.Static == nil {
		return nil, nil, nil
	}
	now, err := f.tables.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	table := now.all
	if onlyStatic {
		table = now.static
	}
	if len(table.All) == 0 {
		return nil, nil, nil
	}
	r := f.o.Cluster.Of(ctx, c)
	return r, table.Find(r.Place(), f.o.Cluster.Registry.Catalogue, c.Kind), nil
}
