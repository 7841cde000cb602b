package podspec

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// findings collects errors.
type findings struct {
	errs field.ErrorList
	root *field.Path // what paths lead from
}

// from makes the root that paths lead from.
func (f *findings) from(root *field.Path) fieldPath {
	f.root = root
	return fieldPath{}
}

func (f *findings) path(p fieldPath) *field.Path { return p.under(f.root) }

func (f *findings) invalid(p fieldPath, value any, detail string) {
	f.errs = append(f.errs, field.Invalid(f.path(p), value, detail))
}

// invalidAll reports several errors about one value.
func (f *findings) invalidAll(p fieldPath, value any, messages []string) {
	for _, m := range messages {
		f.errs = append(f.errs, field.Invalid(f.path(p), value, m))
	}
}

func (f *findings) required(p fieldPath, detail string) {
	f.errs = append(f.errs, field.Required(f.path(p), detail))
}

func (f *findings) forbidden(p fieldPath, detail string) {
	f.errs = append(f.errs, field.Forbidden(f.path(p), detail))
}

func (f *findings) duplicate(p fieldPath, value any) {
	f.errs = append(f.errs, field.Duplicate(f.path(p), value))
}

func (f *findings) notFound(p fieldPath, value any) { f.notFoundAmong(p, value, "") }

// notFoundAmong reports a missing value and lists the existing ones.
func (f *findings) notFoundAmong(p fieldPath, value any, detail string) {
	err := field.NotFound(f.path(p), value)
	err.Detail = detail
	f.errs = append(f.errs, err)
}

// atMost requires a list of at most most elements.
func (f *findings) atMost(p fieldPath, n, most int) {
	if n > most {
		f.errs = append(f.errs, field.TooMany(f.path(p), n, most))
	}
}

// requireText requires a string that is not empty.
func (f *findings) requireText(p fieldPath, name, text string) bool {
	if text != "" {
		return true
	}
	f.required(p.child(name), "")
	return false
}

func (f *findings) nonNegative(p fieldPath, name string, n int64) {
	if n < 0 {
		f.invalid(p.child(name), n, "must be greater than or equal to 0")
	}
}

// oneOf requires one of the known values; errors list them in this order.
func oneOf[T ~string](f *findings, p fieldPath, value T, known ...T) bool {
	for _, k := range known {
		if value == k {
			return true
		}
	}
	f.errs = append(f.errs, field.NotSupported(f.path(p), value, known))
	return false
}

// seen is a set: it does not allocate for few values, and is fast for many.
type seen[T comparable] struct {
	first [8]T
	n     int
	rest  map[T]struct{}
}

// add reports whether the value is new.
func (s *seen[T]) add(v T) bool {
	for i := range s.n {
		if s.first[i] == v {
			return false
		}
	}
	if s.n < len(s.first) {
		s.first[s.n] = v
		s.n++
		return true
	}
	if _, known := s.rest[v]; known {
		return false
	}
	if s.rest == nil {
		s.rest = map[T]struct{}{}
	}
	s.rest[v] = struct{}{}
	return true
}

func (s *seen[T]) has(v T) bool {
	for i := range s.n {
		if s.first[i] == v {
			return true
		}
	}
	_, known := s.rest[v]
	return known
}
