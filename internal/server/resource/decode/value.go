package decode

import (
	"encoding/base64"
	"math"
	"reflect"
	"strconv"
	"unsafe"
)

// reader reads one text. Its methods return false if they refuse it.
type reader struct {
	text  string
	at    int
	depth int
}

// maxDepth keeps the stack small. No usual object is nested so deeply.
const maxDepth = 200

// peek skips white space and returns the next byte; zero at the end.
func (r *reader) peek() byte {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case ' ', '\n', '\r', '\t':
			r.at++
		default:
			return c
		}
	}
	return 0
}

// after skips the current byte and calls peek.
func (r *reader) after() byte {
	r.at++
	return r.peek()
}

// value reads the value at the current place, where there is no white space, into the zeroed memory at p.
func (r *reader) value(t *plan, p unsafe.Pointer) bool {
	if r.at < len(r.text) && r.text[r.at] == 'n' && t.kind != own && t.kind != refused {
		return r.word("null") // the value stays zero
	}
	switch t.kind {
	case text:
		s, ok := r.quoted()
		*(*string)(p) = s
		return ok
	case structure:
		return r.deeper() && r.structure(t, p) && r.higher()
	case pointer:
		inner := reflect.New(t.elem.goType).UnsafePointer()
		*(*unsafe.Pointer)(p) = inner
		return r.value(t.elem, inner)
	case list:
		return r.deeper() && r.list(t, p) && r.higher()
	case texts:
		return r.texts((*map[string]string)(p))
	case mapping:
		return r.deeper() && r.mapping(t, p) && r.higher()
	case truth:
		return r.truth((*bool)(p))
	case int64s, int32s, otherInt, otherUint, float:
		return r.number(t, p)
	case data:
		return r.data((*[]byte)(p))
	}
	return r.special(t, p)
}

func (r *reader) deeper() bool {
	r.depth++
	return r.depth <= maxDepth
}

func (r *reader) higher() bool {
	r.depth--
	return true
}

func (r *reader) word(w string) bool {
	if len(r.text)-r.at < len(w) || r.text[r.at:r.at+len(w)] != w {
		return false
	}
	r.at += len(w)
	return true
}

func (r *reader) truth(p *bool) bool {
	if r.word("true") {
		*p = true
		return true
	}
	return r.word("false")
}

func (r *reader) structure(t *plan, p unsafe.Pointer) bool {
	if r.peek() != '{' {
		return false
	}
	if r.after() == '}' {
		r.at++
		return true
	}
	seen, next := uint64(0), 0
	for {
		i := r.name(t, next)
		if i < 0 || seen&(1<<i) != 0 {
			return false
		}
		seen |= 1 << i
		next = i + 1
		f := &t.fields[i]
		r.peek()
		if !r.value(f.plan, f.in(p)) {
			return false
		}
		switch r.peek() {
		case ',':
			r.after()
		case '}':
			r.at++
			return true
		default:
			return false
		}
	}
}

// name reads a name and its colon, and returns the index of the field; negative if there is none. Fields mostly come in
// the order of their declaration and without white space.
func (r *reader) name(t *plan, next int) int {
	if r.at >= len(r.text) || r.text[r.at] != '"' {
		return -1
	}
	rest := r.text[r.at+1:]
	for i := next; i < len(t.fields) && i < next+2; i++ {
		if q := t.fields[i].quoted; len(rest) > len(q) && rest[:len(q)] == q {
			r.at += 1 + len(q)
			return i
		}
	}
	name, ok := r.quoted()
	if !ok || r.peek() != ':' {
		return -1
	}
	r.at++
	i, ok := t.byName[name]
	if !ok {
		return -1
	}
	return i
}

// largestGuess bounds the memory that a list gets before it is known to need it.
const largestGuess = 4 << 10

func (r *reader) list(t *plan, p unsafe.Pointer) bool {
	if r.peek() != '[' {
		return false
	}
	v := reflect.NewAt(t.goType, p).Elem()
	if r.after() == ']' {
		r.at++
		v.Set(reflect.MakeSlice(t.goType, 0, 0))
		return true
	}
	guess := max(1, int(t.hint.Load()))
	if t.elem.size > 0 {
		guess = max(1, min(guess, largestGuess/int(t.elem.size)))
	}
	v.Grow(guess)
	n, room := 0, v.Cap()
	for {
		if n == room {
			v.Grow(1)
			room = v.Cap()
		}
		n++
		v.SetLen(n)
		if !r.value(t.elem, unsafe.Add(*(*unsafe.Pointer)(p), uintptr(n-1)*t.elem.size)) {
			return false
		}
		switch r.peek() {
		case ',':
			r.after()
		case ']':
			r.at++
			if t.hint.Load() != int32(n) {
				t.hint.Store(int32(min(n, math.MaxInt32)))
			}
			return true
		default:
			return false
		}
	}
}

// entries reads an object's names and calls f at each value.
func (r *reader) entries(f func(name string) bool) bool {
	if r.peek() != '{' {
		return false
	}
	if r.after() == '}' {
		r.at++
		return true
	}
	for {
		name, ok := r.quoted()
		if !ok || r.peek() != ':' {
			return false
		}
		r.after()
		if !f(name) {
			return false
		}
		switch r.peek() {
		case ',':
			r.after()
		case '}':
			r.at++
			return true
		default:
			return false
		}
	}
}

func (r *reader) texts(p *map[string]string) bool {
	m := map[string]string{}
	*p = m
	return r.entries(func(name string) bool {
		s, ok := "", true
		if r.at < len(r.text) && r.text[r.at] == 'n' {
			ok = r.word("null")
		} else {
			s, ok = r.quoted()
		}
		known := len(m)
		m[name] = s
		return ok && len(m) > known
	})
}

func (r *reader) mapping(t *plan, p unsafe.Pointer) bool {
	m := reflect.MakeMap(t.goType)
	reflect.NewAt(t.goType, p).Elem().Set(m)
	return r.entries(func(name string) bool {
		v := reflect.New(t.elem.goType)
		if !r.value(t.elem, v.UnsafePointer()) {
			return false
		}
		known := m.Len()
		m.SetMapIndex(reflect.ValueOf(name).Convert(t.key), v.Elem())
		return m.Len() > known
	})
}

func (r *reader) data(p *[]byte) bool {
	s, ok := r.quoted()
	if !ok {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	*p = b
	return err == nil
}

func (r *reader) number(t *plan, p unsafe.Pointer) bool {
	s, integer := r.digits()
	if s == "" || !integer && t.kind != float {
		return false
	}
	v := reflect.NewAt(t.goType, p).Elem()
	switch t.kind {
	case int64s:
		n, err := strconv.ParseInt(s, 10, 64)
		*(*int64)(p) = n
		return err == nil
	case int32s:
		n, err := strconv.ParseInt(s, 10, 32)
		*(*int32)(p) = int32(n)
		return err == nil
	case otherInt:
		n, err := strconv.ParseInt(s, 10, 64)
		v.SetInt(n)
		return err == nil && v.Int() == n
	case otherUint:
		n, err := strconv.ParseUint(s, 10, 64)
		v.SetUint(n)
		return err == nil && v.Uint() == n
	}
	n, err := strconv.ParseFloat(s, t.goType.Bits())
	v.SetFloat(n)
	return err == nil
}
