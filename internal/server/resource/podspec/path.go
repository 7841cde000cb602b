package podspec

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fieldPath leads to a value. It is the last step, and points to the one above it in a variable of a caller: nearly all
// of them stay on the stack. A field.Path, which costs an allocation for each step, is made of it only for an error.
type fieldPath struct {
	above *fieldPath // nil for the root
	name  string
	index int // noIndex, or byKey if the name is a key
}

const (
	noIndex = -1
	byKey   = -2
)

func (p *fieldPath) child(name string) fieldPath { return fieldPath{p, name, noIndex} }
func (p *fieldPath) item(i int) fieldPath        { return fieldPath{p, "", i} }
func (p *fieldPath) keyed(key string) fieldPath  { return fieldPath{p, key, byKey} }

// element is an item of a child.
func (p *fieldPath) element(list string, i int) fieldPath { return fieldPath{p, list, i} }

// under makes the path. Names are copied: if they flowed into it, the compiler would assume that the steps do, and
// allocate each of them.
func (p *fieldPath) under(root *field.Path) *field.Path {
	if p.above == nil {
		return root
	}
	at := p.above.under(root)
	if p.index == byKey {
		return at.Key(strings.Clone(p.name))
	}
	if p.name != "" {
		at = at.Child(strings.Clone(p.name))
	}
	if p.index >= 0 {
		at = at.Index(p.index)
	}
	return at
}
