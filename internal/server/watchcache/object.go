package watchcache

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/millrace/millrace/internal/server/store"
)

// Attributes are the labels and fields of an object, for selectors.
type Attributes struct {
	Labels Labels
	// Fields are the values of the kind's selectable fields, in the order of KindOptions.Fields.
	Fields []string
}

// Field returns the value of the selectable field i. It is empty if the object could not be read.
func (a *Attributes) Field(i int) string {
	if i < 0 || i >= len(a.Fields) {
		return ""
	}
	return a.Fields[i]
}

// Object is one version of one object. It is immutable.
type Object struct {
	Key      string
	Revision store.Revision
	Attributes

	body   atomic.Pointer[body]
	size   int32 // of the unpacked value
	prefix int32 // length of the kind's prefix
	slash  int32 // where the name begins in the key
	forms  forms

	read           atomic.Bool // the value was read since the last attempt to pack it
	incompressible bool        // packing did not make it smaller; only the packing goroutine uses this
}

// NewObject makes an object from an entry that was read directly from the store: because its kind is not cached, or
// because its revision has left the window. Its forms are not kept. If its attributes cannot be read, it has none, and
// the error says why.
func NewObject(o KindOptions, e store.Entry) (*Object, error) {
	var a Attributes
	var err error
	if o.Attributes != nil {
		if a, err = o.Attributes(e.Key, e.Value); err != nil {
			a = Attributes{}
		}
	}
	return newObject(o, e, a, nil), err
}

// newObject keeps an entry's value without a copy, unless it is part of a larger allocation than a copy would need,
// with rounding included.
func newObject(k KindOptions, e store.Entry, a Attributes, budget *formBudget) *Object {
	value := e.Value
	if cap(value)-len(value) > 64+len(value)/4 {
		value = bytes.Clone(value)
	}
	o := &Object{Key: e.Key, Revision: e.Revision, Attributes: a, size: int32(len(value)), prefix: int32(len(k.Prefix))}
	o.body.Store(&body{bytes: value})
	o.read.Store(true)
	o.slash = o.prefix
	if k.Namespaced {
		o.slash += int32(strings.IndexByte(e.Key[o.prefix:], '/') + 1)
	}
	o.forms.budget = budget
	return o
}

// Value returns the stored bytes. They must not be modified.
func (o *Object) Value() []byte {
	if !o.read.Load() { // reading first keeps the cache line shared
		o.read.Store(true)
	}
	return o.body.Load().value()
}

// Size returns the length of the value. It unpacks nothing.
func (o *Object) Size() int { return int(o.size) }

// Packed reports whether Value has to unpack the value.
func (o *Object) Packed() bool { return o.body.Load().model != nil }

// Namespace returns the object's namespace; it is empty if the kind has none.
func (o *Object) Namespace() string {
	if o.slash == o.prefix {
		return ""
	}
	return o.Key[o.prefix : o.slash-1]
}

// Name returns the object's name: the last part of the key.
func (o *Object) Name() string { return o.Key[o.slash:] }

// Form returns the object in one encoded form. An edition stands for a version of the kind and for how the kind was
// defined at the time; each edition has forms of its own. A form is made when it is first requested; concurrent callers
// wait for it. If build fails, nothing is kept. Build may ask for another form of the same object.
func (o *Object) Form(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error) {
	return o.forms.get(edition, slot, build)
}
