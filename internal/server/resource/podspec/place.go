package podspec

import "k8s.io/apimachinery/pkg/util/validation/field"

// place is the current place in an object. It is a number of a step in findings. A field.Path is built from the steps only when there is an error,
// because a path costs an allocation for each step.
type place struct {
	of *findings
	id int
}

type step struct {
	root  *field.Path // of the first step
	up    int
	name  string
	index int // -1 for a name, -2 for a key
}

const (
	byName = -1
	byKey  = -2
)

func (f *findings) step(s step) place {
	f.steps = append(f.steps, s)
	return place{f, len(f.steps) - 1}
}

// at begins at a path.
func (f *findings) at(root *field.Path) place { return f.step(step{root: root}) }

func (p *place) child(name string) place { return p.of.step(step{up: p.id, name: name, index: byName}) }
func (p *place) item(i int) place        { return p.of.step(step{up: p.id, index: i}) }
func (p *place) keyed(key string) place  { return p.of.step(step{up: p.id, name: key, index: byKey}) }

// forget drops all places that were made after this one, so that long lists do not accumulate them.
func (p *place) forget() { p.of.steps = p.of.steps[:p.id+1] }

func (p *place) path() *field.Path { return p.of.pathOf(p.id) }

func (f *findings) pathOf(id int) *field.Path {
	s := &f.steps[id]
	if s.root != nil {
		return s.root
	}
	switch above := f.pathOf(s.up); s.index {
	case byKey:
		return above.Key(s.name)
	case byName:
		return above.Child(s.name)
	default:
		return above.Index(s.index)
	}
}
