package decode

import "github.com/millrace/millrace/internal/jsontext"

// quoted reads a string. Without escapes the result is a substring of the text.
func (r *reader) quoted() (s string, ok bool) {
	s, end, ok := jsontext.String(r.text, r.at)
	if ok {
		r.at = end
	}
	return s, ok
}

// digits reads a number, and reports whether it is an integer. If there is no number, it is empty.
func (r *reader) digits() (number string, integer bool) {
	n, integer := jsontext.Number(r.text[r.at:])
	r.at += n
	return r.text[r.at-n : r.at], integer
}
