package patch

import (
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/apiserver/internal/body"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/decode"
)

// Part is a patch that changes few fields of an object. Only these fields are encoded, patched and decoded; the rest is
// copied. So the cost depends on the size of the patch: an annotation of a pod of 3 KB takes 7 µs of CPU instead of 90
// for the whole pod.
//
// The result is the same as on the general path; in case of any error the general path is taken. That is correct
// because merging and the decoder's errors concern no other fields than those that the patch names.
type Part struct {
	kind    *resource.Kind
	apply   Func
	touched []touch // empty if the patch may concern the whole object
	texts   bool    // only maps of strings are touched: mostly labels and annotations
}

// PartOf finds the fields that a patch touches.
func PartOf(of *resource.Kind, kind types.PatchType, text []byte, apply Func) Part {
	all, ok := touched(of.GoType(), kind, text)
	if !ok {
		return Part{}
	}
	return Part{of, apply, all, kind != types.JSONPatchType && onlyTexts(of.GoType(), all)}
}

var textMap = reflect.TypeFor[map[string]string]()

// onlyTexts reports whether all touched fields are maps of strings, and the patch sets or removes only strings.
func onlyTexts(t reflect.Type, all []touch) bool {
	for _, at := range all {
		changes, ok := at.value.(map[string]any)
		if !ok || t.FieldByIndex(at.path).Type != textMap {
			return false
		}
		for key, value := range changes {
			if _, isText := value.(string); !isText && value != nil || strings.HasPrefix(key, "$") {
				return false
			}
		}
	}
	return true
}

// Apply returns a patched copy of an object.
func (p Part) Apply(old resource.Object) (changed resource.Object, ok bool) {
	switch {
	case len(p.touched) == 0:
		return nil, false
	case p.texts:
		changed = old.DeepCopyObject().(resource.Object)
		p.merge(changed)
	default:
		after, ok := p.through(old)
		if !ok {
			return nil, false
		}
		changed = old.DeepCopyObject().(resource.Object)
		p.copy(changed, after)
	}
	changed.GetObjectKind().SetGroupVersionKind(p.kind.GroupVersionKind())
	return changed, true
}

// through encodes, patches and decodes the fields.
func (p Part) through(old resource.Object) (after resource.Object, ok bool) {
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
	after = p.kind.New()
	return after, body.Harmless(text) && decode.JSON(text, after)
}

// copy copies the fields.
func (p Part) copy(to, from resource.Object) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for _, at := range p.touched {
		a.FieldByIndex(at.path).Set(b.FieldByIndex(at.path))
	}
}

// merge patches maps of strings; the object owns them.
func (p Part) merge(o resource.Object) {
	v := reflect.ValueOf(o).Elem()
	for _, at := range p.touched {
		texts := v.FieldByIndex(at.path).Addr().Interface().(*map[string]string)
		if *texts == nil {
			*texts = map[string]string{}
		}
		for key, value := range at.value.(map[string]any) {
			if text, set := value.(string); set {
				(*texts)[key] = text
			} else {
				delete(*texts, key)
			}
		}
	}
}
