// Package alike compares values as equality.Semantic of apimachinery does: nil equals empty, quantities are compared by
// their value and times by their instant. Identical is stricter: it distinguishes nil from empty.
//
// Each type is compiled once to a sequence of comparisons, so that a comparison costs about as much as reading the
// memory: 2 µs for the spec of a pod of 4 KB, where the library takes 45. Types that a plan does not know are compared
// by the library.
package alike

import (
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Equal compares the values of two pointers, neither of which is nil.
func Equal[T any](a, b *T) bool {
	return a == b || known.Of(reflect.TypeFor[T]()).equal(unsafe.Pointer(a), unsafe.Pointer(b), loosely)
}

// Values compares two addressable values of one type.
func Values(a, b reflect.Value) bool {
	return known.Of(a.Type()).equal(a.Addr().UnsafePointer(), b.Addr().UnsafePointer(), loosely)
}

// Identical reports whether two addressable values of one type are the same in every respect.
func Identical(a, b reflect.Value) bool {
	return known.Of(a.Type()).equal(a.Addr().UnsafePointer(), b.Addr().UnsafePointer(), strictly)
}

// measure says which values count as equal.
type measure bool

const (
	loosely  measure = false
	strictly measure = true
)

// equal compares the values at two addresses.
func (p *plan) equal(a, b unsafe.Pointer, m measure) bool {
	for i := range p.steps {
		s := &p.steps[i]
		if !s.equal(unsafe.Add(a, s.offset), unsafe.Add(b, s.offset), m) {
			return false
		}
	}
	return true
}

// view is the memory layout of a slice.
type view struct {
	first unsafe.Pointer
	len   int
	_     int
}

func (s *step) equal(a, b unsafe.Pointer, m measure) bool {
	switch s.kind {
	case memory:
		return unsafe.String((*byte)(a), s.size) == unsafe.String((*byte)(b), s.size)
	case text:
		return *(*string)(a) == *(*string)(b)
	case pointer:
		x, y := *(*unsafe.Pointer)(a), *(*unsafe.Pointer)(b)
		return x == y || x != nil && y != nil && s.inner.equal(x, y, m)
	case list:
		return s.lists((*view)(a), (*view)(b), m)
	case texts:
		return mappings(*(*map[string]string)(a), *(*map[string]string)(b), m, func(x, y string) bool { return x == y })
	case quantities:
		return mappings(*(*quantityMap)(a), *(*quantityMap)(b), m, func(x, y resource.Quantity) bool { return sameQuantity(&x, &y, m) })
	case quantity:
		return sameQuantity((*resource.Quantity)(a), (*resource.Quantity)(b), m)
	case moment:
		x, y := (*metav1.Time)(a), (*metav1.Time)(b)
		return *x == *y || m == loosely && x.UTC() == y.UTC()
	case microMoment:
		x, y := (*metav1.MicroTime)(a), (*metav1.MicroTime)(b)
		return *x == *y || m == loosely && x.UTC() == y.UTC()
	}
	x, y := reflect.NewAt(s.goType, a).Interface(), reflect.NewAt(s.goType, b).Interface()
	if m == strictly {
		return reflect.DeepEqual(x, y)
	}
	return equality.Semantic.DeepEqual(x, y)
}

func (s *step) lists(a, b *view, m measure) bool {
	if a.len != b.len || m == strictly && (a.first == nil) != (b.first == nil) {
		return false
	}
	if a.first == b.first {
		return true
	}
	for i := range a.len {
		at := uintptr(i) * s.size
		if !s.inner.equal(unsafe.Add(a.first, at), unsafe.Add(b.first, at), m) {
			return false
		}
	}
	return true
}

func mappings[K comparable, V any](a, b map[K]V, m measure, same func(V, V) bool) bool {
	if len(a) != len(b) || m == strictly && (a == nil) != (b == nil) {
		return false
	}
	for k, x := range a {
		if y, ok := b[k]; !ok || !same(x, y) {
			return false
		}
	}
	return true
}

func sameQuantity(a, b *resource.Quantity, m measure) bool {
	return *a == *b || m == loosely && a.Cmp(*b) == 0
}
