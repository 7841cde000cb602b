package ownership

import (
	"slices"
	"strings"
)

// parse reads a set in the format of managed fields. What is not written as the library writes it makes the set odd; if
// that is only the order of its members, it is shuffled.
func (p *paths) parse(text string) ref {
	root := p.root()
	if rest := p.parseInto(root, text); rest != "" {
		p.odd = true
	}
	return root
}

// parseInto reads an object of steps and returns what follows it.
func (p *paths) parseInto(parent ref, s string) (rest string) {
	if p.odd || !strings.HasPrefix(s, "{") {
		p.odd = true
		return s
	}
	s = s[1:]
	var last ref
	ordered := true
	for !p.odd && !strings.HasPrefix(s, "}") {
		end := nameEnd(s)
		if end < 0 || !strings.HasPrefix(s[end:], `":`) {
			p.odd = true
			return s
		}
		name := s[1:end]
		s = s[end+2:]
		if name == "." {
			p.nodes[parent].member = true
			s = p.skipNothing(s)
		} else {
			before := last
			s = p.parseStep(parent, &last, name, s)
			ordered = ordered && (p.odd || before == 0 || p.compare(before, last) < 0)
		}
		if next, more := strings.CutPrefix(s, ","); more && next != "" && next[0] == '"' {
			s = next
		} else if !strings.HasPrefix(s, "}") {
			p.odd = true
		}
	}
	if !ordered {
		p.order(parent)
	}
	if p.odd {
		return s
	}
	return s[1:]
}

// order puts the children of a node in order. Sets that stand in a tree have the order of their texts, which differs
// for numbers.
func (p *paths) order(parent ref) {
	p.shuffled = true
	var all []ref
	for child := p.nodes[parent].child; child != 0; child = p.nodes[child].next {
		all = append(all, child)
	}
	slices.SortFunc(all, p.compare)
	var last ref
	for i, child := range all {
		p.odd = p.odd || i > 0 && p.compare(last, child) == 0
		p.nodes[child].next = 0
		p.link(parent, &last, child)
	}
}

func (p *paths) parseStep(parent ref, last *ref, name, s string) (rest string) {
	if len(name) < 2 || name[1] != ':' || strings.IndexByte("fkvi", name[0]) < 0 || step(name[0]) == fieldStep && strings.IndexByte(name, '\\') >= 0 {
		p.odd = true
		return s
	}
	n := p.add(step(name[0]), name[2:])
	p.link(parent, last, n)
	s = p.parseInto(n, s)
	if p.nodes[n].child == 0 {
		p.nodes[n].member = true
	}
	return s
}

// skipNothing reads {}.
func (p *paths) skipNothing(s string) string {
	rest, ok := strings.CutPrefix(s, "{}")
	p.odd = p.odd || !ok
	return rest
}

// nameEnd finds the end of a name that begins at the start of s; -1 if its text has escapes other than of quotation
// marks.
func nameEnd(s string) int {
	if s == "" || s[0] != '"' {
		return -1
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return i
		case '\\':
			if i++; i >= len(s) || s[i] != '"' {
				return -1
			}
		}
	}
	return -1
}

// write appends a set in the format of managed fields.
func (p *paths) write(b []byte, r ref) []byte {
	b = append(b, '{')
	n := &p.nodes[r]
	if n.member && n.child != 0 {
		b = append(b, `".":{},`...)
	}
	for c := n.child; c != 0; c = p.nodes[c].next {
		child := &p.nodes[c]
		b = append(b, '"', byte(child.kind), ':')
		b = append(b, child.name...)
		b = append(b, '"', ':')
		b = p.write(b, c)
		if child.next != 0 {
			b = append(b, ',')
		}
	}
	return append(b, '}')
}
