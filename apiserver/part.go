package apiserver

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/apiserver/internal/decode"
	"github.com/millrace/millrace/resource"
)

// part is a patch of a few fields of an object. An object that has no others is made into text, changed and read again, and
// the rest is copied: that costs in proportion to the patch, where the whole object's way through text takes half a
// millisecond.
//
// It comes to the same, or is left to the long way, whatever goes wrong: merging has to do with no field but those that the
// patch names, and so have the findings of the decoder.
type part struct {
	kind  *resource.Kind
	apply patched
	paths []fieldPath // none if the whole object may be meant
}

func (c *call) partOf(kind types.PatchType, text []byte, apply patched) part {
	if !c.native() || !c.isProto() {
		return part{}
	}
	paths, ok := touched(c.kind.GoType(), kind, text)
	if !ok {
		return part{}
	}
	return part{c.kind, apply, paths}
}

// patch makes a changed copy of an object.
func (p part) patch(old resource.Object) (changed resource.Object, ok bool) {
	if len(p.paths) == 0 {
		return nil, false
	}
	before := p.kind.New()
	p.copy(before, old)
	before.GetObjectKind().SetGroupVersionKind(p.kind.GroupVersionKind())
	text, err := json.Marshal(before)
	if err != nil {
		return nil, false
	}
	if text, err = p.apply(text); err != nil {
		return nil, false
	}
	after := p.kind.New()
	if !decode.JSON(text, after) || after.GetObjectKind().GroupVersionKind() != p.kind.GroupVersionKind() {
		return nil, false
	}
	changed = old.DeepCopyObject().(resource.Object)
	p.copy(changed, after)
	changed.GetObjectKind().SetGroupVersionKind(p.kind.GroupVersionKind())
	return changed, true
}

// copy copies the fields.
func (p part) copy(to, from resource.Object) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, path := range p.paths {
		a.FieldByIndex(path).Set(b.FieldByIndex(path))
	}
}
