package informer

// vocabulary keeps one copy of each string that it has seen. It has no lock: it belongs to one reflector. It forgets all
// when it holds too many, so that values that turn out not to repeat cost little.
type vocabulary struct {
	known map[string]string
}

const maxStrings = 1 << 16

// bytes returns the string with these bytes.
func (s *vocabulary) bytes(b []byte) string {
	if one, ok := s.known[string(b)]; ok { // does not allocate
		return one
	}
	return s.keep(string(b))
}

// one returns the copy that is kept of a string.
func (s *vocabulary) one(text string) string {
	if one, ok := s.known[text]; ok {
		return one
	}
	return s.keep(text)
}

func (s *vocabulary) keep(text string) string {
	if s.known == nil || len(s.known) >= maxStrings {
		s.known = map[string]string{}
	}
	s.known[text] = text
	return text
}
