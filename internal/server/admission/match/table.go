package match

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

// Table keeps, for each place, those of some candidates that may concern it. It never changes but for what it has found
// out.
type Table[C any] struct {
	// All are the candidates, in order.
	All []C
	// Rules are those of a candidate.
	Rules func(C) *Rules

	found atomic.Pointer[findings[C]]
}

// findings hold as long as the same kinds are served.
type findings[C any] struct {
	version int
	places  sync.Map // Place → []Candidate[C]
}

// Candidate may concern a place: if the name of the object fits.
type Candidate[C any] struct {
	Of       C
	Covered  []Covered
	Excluded []Covered
}

// Find lists the candidates for a place of a kind that is served.
func (t *Table[C]) Find(p Place, served *resource.Catalogue, kind *resource.Kind) []Candidate[C] {
	if len(t.All) == 0 {
		return nil
	}
	version := served.Version()
	f := t.found.Load()
	if f == nil || f.version != version {
		f = &findings[C]{version: version}
		t.found.Store(f)
	}
	if known, ok := f.places.Load(p); ok {
		return known.([]Candidate[C])
	}
	others := Equivalents(served, kind)
	var out []Candidate[C]
	for _, c := range t.All {
		if covered, excluded := t.Rules(c).Cover(&p, others); len(covered) > 0 {
			out = append(out, Candidate[C]{c, covered, excluded})
		}
	}
	f.places.Store(p, out)
	return out
}

// Equivalents are all resources by which the objects of a kind are served.
func Equivalents(served *resource.Catalogue, kind *resource.Kind) (out []schema.GroupVersionResource) {
	for _, f := range Faces(served, kind) {
		out = append(out, f.GroupVersionResource())
	}
	return out
}

// Faces are all faces that the objects of a kind have.
func Faces(served *resource.Catalogue, kind *resource.Kind) (out []*resource.Face) {
	if !kind.Custom {
		return kind.Faces
	}
	for _, k := range served.Kinds() {
		if k.Identity == kind.Identity {
			out = append(out, k.Faces...)
		}
	}
	return out
}
