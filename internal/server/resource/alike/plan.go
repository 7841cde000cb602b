package alike

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/gotypes"
)

// plan is what is to be compared of one Go type. It never changes once it is compiled.
type plan struct{ steps []step }

// step compares the memory at an offset of a value.
type step struct {
	kind   kind
	offset uintptr
	size   uintptr // of the memory, or of a list's elements
	inner  *plan   // of the type of a pointer or of a list's elements
	goType reflect.Type
}

type kind uint8

const (
	other  kind = iota // compared by the library
	memory             // equal if its bytes are
	text
	pointer
	list
	texts
	quantities
	quantity
	moment
	microMoment
)

type quantityMap = corev1.ResourceList

var special = map[reflect.Type]kind{
	reflect.TypeFor[metav1.Time]():       moment,
	reflect.TypeFor[metav1.MicroTime]():  microMoment,
	reflect.TypeFor[resource.Quantity](): quantity,
	reflect.TypeFor[quantityMap]():       quantities,
	reflect.TypeFor[map[string]string](): texts,
}

var known = gotypes.New(func(p *plan, t reflect.Type, of func(reflect.Type) *plan) { p.add(t, 0, of) })

func (p *plan) add(t reflect.Type, offset uintptr, of func(reflect.Type) *plan) {
	s := step{offset: offset, size: t.Size(), goType: t}
	if k, ok := special[t]; ok {
		s.kind = k
		p.steps = append(p.steps, s)
		return
	}
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := len(p.steps); n > 0 && p.steps[n-1].kind == memory && p.steps[n-1].offset+p.steps[n-1].size == offset {
			p.steps[n-1].size += t.Size()
			return
		}
		s.kind = memory
	case reflect.String:
		s.kind = text
	case reflect.Pointer:
		s.kind, s.inner = pointer, of(t.Elem())
	case reflect.Slice:
		s.kind, s.inner, s.size = list, of(t.Elem()), t.Elem().Size()
	case reflect.Struct:
		if exported(t) {
			for i := range t.NumField() {
				p.add(t.Field(i).Type, offset+t.Field(i).Offset, of)
			}
			return
		}
	}
	p.steps = append(p.steps, s)
}

func exported(t reflect.Type) bool {
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
	}
	return true
}
