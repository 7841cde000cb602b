package watchcache

import (
	"strings"

	"github.com/millrace/millrace/store"
)

// unbudgeted is the budget of objects outside a cache: their forms go with them.
var unbudgeted = &formBudget{limit: 0}

// NewObject makes an object of an entry that was read from the store directly: of a kind that is not cached, or of a
// revision that has left the window. Its forms are made anew for each who asks. An object whose attributes cannot be read
// has none.
func NewObject(o KindOptions, e store.Entry) *Object {
	obj := &Object{Key: e.Key, Revision: e.Revision, value: e.Value, prefix: int32(len(o.Prefix))}
	if o.Attributes != nil {
		if a, err := o.Attributes(e.Key, e.Value); err == nil {
			obj.Attributes = a
		}
	}
	obj.slash = obj.prefix
	if o.Namespaced {
		obj.slash += int32(strings.IndexByte(e.Key[obj.prefix:], '/') + 1)
	}
	obj.forms.budget = unbudgeted
	return obj
}
