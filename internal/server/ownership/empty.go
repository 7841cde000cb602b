package ownership

import (
	"reflect"
	"unsafe"
)

// Most fields of most objects are empty, and most of the time would go into finding that out by reflection, at some 15 ns
// each. An emptyCheck is a look at the field's first words in memory, which takes one or two.

// emptyCheck says how to find out cheaply that a field is empty.
type emptyCheck struct {
	offset uintptr
	look   look
}

type look uint8

const (
	closely   look = iota // by reflection
	atPointer             // nil, of pointers and maps
	atLength              // zero, of strings and slices
	atByte                // of truths
	atHalf                // of 32 bits
	atWord                // of 64 bits
)

// emptyCheckAt is how to look at a field that omitempty may leave out.
func emptyCheckAt(t reflect.Type, offset uintptr) emptyCheck {
	g := emptyCheck{offset: offset}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map:
		g.look = atPointer
	case reflect.String, reflect.Slice:
		g.look = atLength
	case reflect.Bool, reflect.Int8, reflect.Uint8:
		g.look = atByte
	case reflect.Int32, reflect.Uint32:
		g.look = atHalf
	case reflect.Int64, reflect.Uint64:
		g.look = atWord
	}
	return g
}

// base is where a struct lies in memory; nil if it has no address.
func base(v reflect.Value) unsafe.Pointer {
	if !v.CanAddr() {
		return nil
	}
	return unsafe.Pointer(v.UnsafeAddr())
}

// sure is true if the field of the struct at p is certainly empty. If it is false, the field may be empty all the same.
func (g emptyCheck) sure(p unsafe.Pointer) bool {
	if p == nil {
		return false
	}
	field := unsafe.Add(p, g.offset)
	switch g.look {
	case atPointer:
		return *(*unsafe.Pointer)(field) == nil
	case atLength:
		// Strings and slices begin with a pointer, and their length follows.
		return *(*int)(unsafe.Add(field, unsafe.Sizeof(uintptr(0)))) == 0
	case atByte:
		return *(*uint8)(field) == 0
	case atHalf:
		return *(*uint32)(field) == 0
	case atWord:
		return *(*uint64)(field) == 0
	}
	return false
}
