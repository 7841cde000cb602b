package decode

import (
	"encoding/json"
	"reflect"
	gotime "time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// special decodes values whose types have their own UnmarshalJSON. A text in the form that the type itself writes is
// decoded without calling it.
func (r *reader) special(t *plan, p unsafe.Pointer) bool {
	if t.kind == refused {
		return false
	}
	start := r.at
	if t.kind != own && r.at < len(r.text) && r.text[r.at] == '"' {
		s, ok := r.quoted()
		if !ok {
			return false
		}
		switch t.kind {
		case time:
			at, err := gotime.Parse(gotime.RFC3339, s)
			(*metav1.Time)(p).Time = at.Local()
			return err == nil
		case either:
			*(*intstr.IntOrString)(p) = intstr.FromString(s)
			return true
		}
	} else if !r.skip() {
		return false
	}
	bytes := []byte(r.text[start:r.at])
	switch t.kind {
	case quantity:
		return (*resource.Quantity)(p).UnmarshalJSON(bytes) == nil
	case either:
		return (*intstr.IntOrString)(p).UnmarshalJSON(bytes) == nil
	case time:
		return (*metav1.Time)(p).UnmarshalJSON(bytes) == nil
	}
	u, ok := reflect.NewAt(t.goType, p).Interface().(json.Unmarshaler)
	return ok && u.UnmarshalJSON(bytes) == nil
}

// skip skips any value, and checks its syntax.
func (r *reader) skip() bool {
	if r.at >= len(r.text) {
		return false
	}
	switch r.text[r.at] {
	case '"':
		_, ok := r.quoted()
		return ok
	case '{':
		return r.deeper() && r.entries(func(string) bool { return r.skip() }) && r.higher()
	case '[':
		return r.deeper() && r.skipList() && r.higher()
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	}
	number, _ := r.digits()
	return number != ""
}

func (r *reader) skipList() bool {
	if r.after() == ']' {
		r.at++
		return true
	}
	for {
		if !r.skip() {
			return false
		}
		switch r.peek() {
		case ',':
			r.after()
		case ']':
			r.at++
			return true
		default:
			return false
		}
	}
}
