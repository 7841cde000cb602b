package podspec

import "k8s.io/apimachinery/pkg/util/validation/field"

// place is where in an object we are. It lives on the stack; a field.Path is made of it only when there is an error to
// report, since a path costs an allocation for each step.
type place struct {
	up    *place
	root  *field.Path
	name  string
	index int // -1 for a name
	key   bool
}

func at(root *field.Path) place { return place{root: root} }

func (p *place) child(name string) place { return place{up: p, name: name, index: -1} }
func (p *place) item(i int) place        { return place{up: p, index: i} }
func (p *place) keyed(key string) place  { return place{up: p, name: key, index: -1, key: true} }

func (p *place) path() *field.Path {
	if p.up == nil {
		return p.root
	}
	switch above := p.up.path(); {
	case p.key:
		return above.Key(p.name)
	case p.index >= 0:
		return above.Index(p.index)
	case above == nil:
		return field.NewPath(p.name)
	default:
		return above.Child(p.name)
	}
}
