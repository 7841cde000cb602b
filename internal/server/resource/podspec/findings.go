package podspec

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// findings collects errors.
type findings struct {
	errs  field.ErrorList
	steps []step
}

func (f *findings) invalid(p *place, value any, detail string) {
	f.errs = append(f.errs, field.Invalid(p.path(), value, detail))
}

// invalidAll reports several errors about one value.
func (f *findings) invalidAll(p *place, value any, messages []string) {
	for _, m := range messages {
		f.errs = append(f.errs, field.Invalid(p.path(), value, m))
	}
}

func (f *findings) required(p *place, detail string) {
	f.errs = append(f.errs, field.Required(p.path(), detail))
}

func (f *findings) forbidden(p *place, detail string) {
	f.errs = append(f.errs, field.Forbidden(p.path(), detail))
}

func (f *findings) duplicate(p *place, value any) {
	f.errs = append(f.errs, field.Duplicate(p.path(), value))
}

func (f *findings) notFound(p *place, value any) { f.notFoundAmong(p, value, "") }

// notFoundAmong reports a missing value and lists the existing ones.
func (f *findings) notFoundAmong(p *place, value any, detail string) {
	err := field.NotFound(p.path(), value)
	err.Detail = detail
	f.errs = append(f.errs, err)
}

// atMost requires a list of at most most elements.
func (f *findings) atMost(p *place, n, most int) {
	if n > most {
		f.errs = append(f.errs, field.TooMany(p.path(), n, most))
	}
}

// requireText requires a string that is not empty.
func (f *findings) requireText(p *place, name, text string) bool {
	if text != "" {
		return true
	}
	c := p.child(name)
	f.required(&c, "")
	return false
}

func (f *findings) nonNegative(p *place, name string, n int64) {
	if n < 0 {
		c := p.child(name)
		f.invalid(&c, n, "must be greater than or equal to 0")
	}
}

// oneOf requires one of the known values; errors list them in this order.
func oneOf[T ~string](f *findings, p *place, value T, known ...T) bool {
	for _, k := range known {
		if value == k {
			return true
		}
	}
	f.errs = append(f.errs, field.NotSupported(p.path(), value, known))
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
