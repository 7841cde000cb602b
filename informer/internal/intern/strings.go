// Package intern keeps one copy of strings that occur in many objects: a hundred thousand pods share the names of a few
// nodes, namespaces and images.
package intern

// Strings keeps one copy of each string that it has seen. It has no lock. When it holds too many it drops all of them,
// so strings that do not repeat cost little. The zero value is ready to use.
type Strings struct {
	known map[string]string
}

const maxStrings = 1 << 16

// Bytes returns the kept string with these bytes.
func (s *Strings) Bytes(b []byte) string {
	if one, ok := s.known[string(b)]; ok { // does not allocate
		return one
	}
	return s.keep(string(b))
}

// String returns the kept copy of a string.
func (s *Strings) String(text string) string {
	if one, ok := s.known[text]; ok {
		return one
	}
	return s.keep(text)
}

func (s *Strings) keep(text string) string {
	if s.known == nil || len(s.known) >= maxStrings {
		s.known = map[string]string{}
	}
	s.known[text] = text
	return text
}
