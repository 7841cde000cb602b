package watchcache

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/millrace/millrace/server/store"
)

// Attributes is what selectors ask about an object.
type Attributes struct {
	Labels Labels
	// Fields are the values of the kind's selectable fields, in the order of KindOptions.Fields.
	Fields []string
}

// Object is one version of one object. It is immutable.
type Object struct {
	Key      string
	Revision store.Revision
	Attributes

	body   atomic.Pointer[body]
	size   int32 // of the value
	prefix int32 // length of the kind's prefix
	slash  int32 // where the name begins in the key
	forms  forms

	read     atomic.Bool // the value was asked for since somebody came by to put it to rest
	restless bool        // it is like no other; belongs to who puts values to rest
}

// NewObject makes an object of an entry that was read from the store directly: of a kind that is not cached, or of a
// revision that has left the window. Its forms are made anew for each who asks. An object whose attributes can't be read
// has none.
func NewObject(o KindOptions, e store.Entry) *Object {
	var a Attributes
	if o.Attributes != nil {
		if found, err := o.Attributes(e.Key, e.Value); err == nil {
			a = found
		}
	}
	return newObject(o, e, a, nil)
}

// newObject keeps an entry's value as it is, unless it is a part of something bigger than what a copy would take, which
// is rounded up too.
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

// Value returns the bytes as they are stored. They must not be modified.
func (o *Object) Value() []byte {
	if !o.read.Load() { // reading first keeps the cache line shared
		o.read.Store(true)
	}
	return o.body.Load().value()
}

// AtRest tells whether Value has to unpack.
func (o *Object) AtRest() bool { return o.body.Load().model != nil }

// Namespace returns the object's namespace, or nothing if its kind has none.
func (o *Object) Namespace() string {
	if o.slash == o.prefix {
		return ""
	}
	return o.Key[o.prefix : o.slash-1]
}

// Name returns the last part of the key.
func (o *Object) Name() string { return o.Key[o.slash:] }

// Field returns the value of the selectable field i. It is empty if the object could not be read.
func (o *Object) Field(i int) string {
	if i < 0 || i >= len(o.Fields) {
		return ""
	}
	return o.Fields[i]
}

// Form returns the object in one wire form. Editions are versions of the kind, and what is said of it at different times: each
// has forms of its own. A form is made when it is first asked for; other callers wait for it meanwhile. If build fails nothing
// is kept. It may ask for another form of the same object.
func (o *Object) Form(edition uint32, slot int, build func() ([]byte, error)) ([]byte, error) {
	return o.forms.get(edition, slot, build)
}
