package decode

import (
	"cmp"
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/gotypes"
)

// plan describes one Go type. Except for the hint, it does not change once it is filled in.
type plan struct {
	kind   kind
	goType reflect.Type
	elem   *plan // of pointers, lists and maps
	key    reflect.Type
	size   uintptr
	fields []field
	byName map[string]int
	// hint is the length of the last list of this type: the next one is likely as long.
	hint atomic.Int32
}

// field is one field of a struct.
type field struct {
	name   string
	quoted string // with the quotation mark and colon after it: `name":`
	offset uintptr
	plan   *plan
}

// kind is the form of a value, in JSON and in Go.
type kind uint8

const (
	refused kind = iota // left to the library
	text
	truth
	int64s
	int32s
	otherInt
	otherUint
	float
	data // bytes, in base64
	structure
	pointer
	list
	texts    // map[string]string
	mapping  // any other map
	time     // metav1.Time
	quantity // resource.Quantity
	either   // intstr.IntOrString
	own      // the type has its own UnmarshalJSON
)

var known = gotypes.New(fill)

// special are types that are decoded here although they have an UnmarshalJSON.
var special = map[reflect.Type]kind{
	reflect.TypeFor[metav1.Time]():        time,
	reflect.TypeFor[resource.Quantity]():  quantity,
	reflect.TypeFor[intstr.IntOrString](): either,
}

// finder returns the plan of another type.
type finder = func(reflect.Type) *plan

func fill(p *plan, t reflect.Type, of finder) {
	p.goType, p.size = t, t.Size()
	if k, ok := special[t]; ok {
		p.kind = k
		return
	}
	switch {
	case t.Kind() == reflect.Pointer:
		p.kind, p.elem = pointer, of(t.Elem())
	case t.Kind() == reflect.Interface:
	case gotypes.UnmarshalsJSON(t):
		p.kind = own
	case gotypes.UnmarshalsText(t):
	default:
		p.fill(t, of)
	}
}

func (p *plan) fill(t reflect.Type, of finder) {
	switch t.Kind() {
	case reflect.String:
		p.kind = text
	case reflect.Bool:
		p.kind = truth
	case reflect.Int64:
		p.kind = int64s
	case reflect.Int32:
		p.kind = int32s
	case reflect.Int, reflect.Int8, reflect.Int16:
		p.kind = otherInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.kind = otherUint
	case reflect.Float32, reflect.Float64:
		p.kind = float
	case reflect.Slice:
		p.kind, p.elem = list, of(t.Elem())
		if t.Elem().Kind() == reflect.Uint8 {
			p.kind = refused
			if p.elem.kind == otherUint {
				p.kind = data
			}
		}
	case reflect.Map:
		p.fillMap(t, of)
	case reflect.Struct:
		p.fillStruct(t, of)
	}
}

func (p *plan) fillMap(t reflect.Type, of finder) {
	if t.Key().Kind() != reflect.String || gotypes.UnmarshalsText(t.Key()) {
		return
	}
	p.kind, p.elem, p.key = mapping, of(t.Elem()), t.Key()
	if t.ConvertibleTo(reflect.TypeFor[map[string]string]()) {
		p.kind = texts
	}
}

// maxFields is how many fields a struct may have: one word records which ones have been seen.
const maxFields = 64

func (p *plan) fillStruct(t reflect.Type, of finder) {
	p.byName = map[string]int{}
	if !p.addFields(t, 0, of) || len(p.fields) > maxFields {
		return
	}
	for i := range p.fields {
		name := p.fields[i].name
		if _, twice := p.byName[name]; twice {
			return // which field counts depends on how deep they are embedded
		}
		p.byName[name] = i
	}
	p.kind = structure
}

func (p *plan) addFields(t reflect.Type, offset uintptr, of finder) bool {
	for f := range gotypes.Fields(t) {
		if f.Anonymous && f.JSON == "" {
			if f.Type.Kind() != reflect.Struct || of(f.Type).kind != structure || !p.addFields(f.Type, offset+f.Offset, of) {
				return false
			}
			continue
		}
		if slices.Contains(f.Others, "string") {
			return false
		}
		name := cmp.Or(f.JSON, f.Name)
		p.fields = append(p.fields, field{name: name, quoted: name + `":`, offset: offset + f.Offset, plan: of(f.Type)})
	}
	return true
}

func (f *field) in(p unsafe.Pointer) unsafe.Pointer { return unsafe.Add(p, f.offset) }
