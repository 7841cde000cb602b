package plan

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/millrace/millrace/internal/jsontext"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// Whole tells of an object's text what Complete tells of the object, and then whether the text is canonical without
// being ambiguous. The text must be written as tree.Append writes it.
func (p *Plan) Whole(text []byte) (whole, unambiguous bool) {
	if p == nil {
		return false, false
	}
	r := reader{Canonical: jsontext.Canonical{Text: unsafe.String(unsafe.SliceData(text), len(text))}}
	whole = p.root.readMap(&r, true) && strings.TrimSuffix(r.Text[r.At:], "\n") == ""
	return whole, whole && !r.Ambiguous
}

// Fits tells that an object is complete and valid.
func (p *Plan) Fits(o *tree.Object) bool {
	if p == nil || p.root.odd || p.root.embedded || p.root.kind != "object" {
		return false
	}
	n := p.root
	parts := o.All()
	if !fits(int64(len(parts)+headers), n.minMembers, n.maxMembers) {
		return false
	}
	filled := 0
	for i := range parts {
		member := n.member(parts[i].Name)
		if member == nil {
			if !n.preserve {
				return false
			}
			continue
		}
		if member.filled && member != n.additional {
			filled++
		}
		r := reader{Canonical: jsontext.Canonical{Text: parts[i].Text}, valid: true}
		if !member.read(&r) {
			return false
		}
	}
	for _, name := range n.required {
		if !header(name) && o.Part(name) == nil {
			return false
		}
	}
	return filled == n.defaults
}

// headers is how many members of an object are none of the schema's business.
const headers = 3

// reader reads a text once, by what the nodes say of it.
type reader struct {
	jsontext.Canonical
	valid bool // asks whether the text is valid too
}

// read reads a value, and tells whether it is complete, and valid if the reader asks for that.
func (n *node) read(r *reader) bool {
	if r.valid && (n.odd || n.unknown || n.embedded) {
		return false
	}
	c := r.Next()
	if r.valid && n.enum != nil && (c == '{' || c == '[') {
		return false // there are only scalars among the values
	}
	switch c {
	case '{':
		return !n.unknown && (!r.valid || n.kind == "object" || n.anything()) && n.readMap(r, false)
	case '[':
		return !n.unknown && (!r.valid || n.kind == "array" || n.anything()) && n.readList(r)
	case '"':
		quoted, ok := r.Quoted()
		return ok && (!r.valid || n.validQuoted(quoted))
	case 't', 'f':
		return r.Bool() && (!r.valid || (n.kind == "boolean" || n.anything()) && n.among(c == 't'))
	case 'n':
		return n.nullable && !r.valid && r.Null()
	}
	from := r.At
	integer, ok := r.Number()
	return ok && (!r.valid || integer && n.validDigits(r.Text[from:r.At]))
}

// among tells that a value is one of those that are allowed.
func (n *node) among(value any) bool {
	if n.enum == nil {
		return true
	}
	for _, e := range n.enum {
		if e == value {
			return true
		}
	}
	return false
}

func (n *node) validQuoted(quoted string) bool {
	if n.kind != "string" && !n.intOrText && !n.anything() {
		return false
	}
	if n.enum == nil && n.minLength == nil && n.maxLength == nil && n.pattern == nil && n.format == "" {
		return true
	}
	text := quoted[1 : len(quoted)-1]
	if strings.IndexByte(text, '\\') >= 0 {
		var ok bool
		if text, ok = jsontext.Unquote(quoted); !ok {
			return false
		}
	}
	return n.among(text) && n.validText(text)
}

func (n *node) validDigits(digits string) bool {
	if n.kind != "integer" && n.kind != "number" && !n.intOrText && !n.anything() {
		return false
	}
	i, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && n.among(i) && n.validInteger(i)
}

func (n *node) readMap(r *reader, outermost bool) bool {
	if n.embedded {
		return false
	}
	filled, count, required := 0, 0, 0
	ok := r.Object(func(name string) bool {
		count++
		if strings.IndexByte(name, '\\') >= 0 {
			return false
		}
		if outermost && header(name) {
			return name == "metadata" && readMetadata(r) || name != "metadata" && r.Skip()
		}
		if r.valid && len(n.required) > 0 && isRequired(n.required, name) {
			required++
		}
		member := n.member(name)
		if member == nil {
			return n.preserve && r.Skip()
		}
		if member.filled && member != n.additional {
			filled++
		}
		return member.read(r)
	})
	return ok && filled == n.defaults && (!r.valid || required == len(n.required) && fits(int64(count), n.minMembers, n.maxMembers))
}

func isRequired(required []string, name string) bool {
	for _, r := range required {
		if r == name {
			return true
		}
	}
	return false
}

func (n *node) readList(r *reader) bool {
	told := r.valid && (n.set || n.keys != nil)
	var room [8]string
	elements, count := room[:0], 0
	ok := r.List(func() bool {
		from := r.At
		if n.items == nil {
			if !n.preserve || !r.Skip() {
				return false
			}
		} else if !n.items.read(r) {
			return false
		}
		count++
		if told {
			elements = append(elements, r.Text[from:r.At])
		}
		return true
	})
	if !ok || !r.valid {
		return ok
	}
	return fits(int64(count), n.minItems, n.maxItems) && (!told || n.distinctTexts(elements))
}

// distinctTexts tells that no two elements are the same.
func (n *node) distinctTexts(elements []string) bool {
	if len(elements) > mostCompared {
		return false
	}
	for i, a := range elements {
		if n.set && !scalar(a) || !n.set && !n.hasKeys(a) {
			return false
		}
		for _, b := range elements[:i] {
			if n.set && a == b || !n.set && !n.apartTexts(a, b) {
				return false
			}
		}
	}
	return true
}

// hasKeys tells that an element has all that it is told apart by.
func (n *node) hasKeys(element string) bool {
	for _, k := range n.keys {
		if key, ok := jsontext.At(element, k); !ok || !scalar(key) {
			return false
		}
	}
	return true
}

// scalar tells of a text that is no null and no fraction that it has no parts.
func scalar(text string) bool { return text != "" && text[0] != '{' && text[0] != '[' }

// apartTexts tells that two elements, which have all keys, have different ones.
func (n *node) apartTexts(a, b string) bool {
	for _, k := range n.keys {
		one, _ := jsontext.At(a, k)
		if other, _ := jsontext.At(b, k); one != other {
			return true
		}
	}
	return false
}

// readMetadata looks at stored metadata, which has been read and written by its types.
func readMetadata(r *reader) bool {
	generation := false
	ok := r.Object(func(name string) bool {
		from := r.At
		c := r.Next()
		if metadataMembers[name] == textsMember {
			any := false
			return c == '{' && r.Object(func(string) bool {
				_, ok := r.Quoted()
				any = true
				return ok
			}) && any
		}
		if !r.Skip() {
			return false
		}
		value := r.Text[from:r.At]
		switch metadataMembers[name] {
		case textMember:
			return len(value) > 2 && c == '"'
		case timeMember:
			return len(value) > 2 && plainTime(value[1:len(value)-1])
		case numberMember:
			generation = generation || name == "generation"
			return c >= '1' && c <= '9' || name == "deletionGracePeriodSeconds" && c == '0'
		case listMember:
			return len(value) > 2 && c == '['
		}
		return false
	})
	return ok && generation
}
