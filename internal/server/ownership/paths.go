package ownership

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/jsontext"
)

// paths are sets of paths through objects, as trees whose nodes lie in one slice. Sets that are made together share it.
//
// A name is kept as it is written within the JSON text of a set, so that reading and writing need no decoding. Names
// with characters that would need more care than that make the whole computation odd: the library must do it.
type paths struct {
	nodes []node
	odd   bool
	// shuffled says that members of a set that was read stood in another order than the library's.
	shuffled bool
}

// ref points to a node; zero is no node.
type ref int32

// step says how a path goes on. It is the letter by which sets name it.
type step byte

const (
	fieldStep step = 'f' // to a field of an object
	keyStep   step = 'k' // to an element of a list, by its keys
	valueStep step = 'v' // to an element of a list, by its value
	indexStep step = 'i' // to an element of a list, by its index
)

// node is one step of paths.
type node struct {
	kind        step
	member      bool // the path to here is in the set
	gone        bool // while objects are compared: it is in the other set
	name        string
	child, next ref
}

func (p *paths) reset() {
	p.nodes = append(p.nodes[:0], node{}) // number zero is nobody
	p.odd, p.shuffled = false, false
}

func (p *paths) add(kind step, name string) ref {
	p.nodes = append(p.nodes, node{kind: kind, name: name})
	return ref(len(p.nodes) - 1)
}

// root makes an empty set.
func (p *paths) root() ref { return p.add(0, "") }

func (p *paths) empty(r ref) bool { return p.nodes[r].child == 0 }

// link appends a child.
func (p *paths) link(parent ref, last *ref, child ref) {
	if *last == 0 {
		p.nodes[parent].child = child
	} else {
		p.nodes[*last].next = child
	}
	*last = child
}

// ordinary tells names that are written as they are.
func ordinary(s string) bool { return jsontext.Unescaped(s) == len(s) }

// rank is the place of a step among its siblings.
func rank(kind step) int {
	switch kind {
	case fieldStep:
		return 0
	case keyStep:
		return 1
	case valueStep:
		return 2
	}
	return 3
}

// compare orders steps as the library does.
func (p *paths) compare(a, b ref) int {
	x, y := &p.nodes[a], &p.nodes[b]
	if x.kind != y.kind {
		return cmp.Compare(rank(x.kind), rank(y.kind))
	}
	return p.compareNames(x.kind, x.name, y.name)
}

func (p *paths) compareNames(kind step, a, b string) int {
	switch {
	case a == b:
		return 0
	case kind == fieldStep:
		return strings.Compare(a, b)
	case kind == keyStep:
		return p.compareKeys(a, b)
	}
	return p.compareValues(a, b)
}

// compareKeys compares {\"name\":\"a\",\"port\":1}, pair by pair.
func (p *paths) compareKeys(a, b string) int {
	a, b = strings.Trim(a, "{}"), strings.Trim(b, "{}")
	for a != "" && b != "" {
		var nameA, nameB, valueA, valueB string
		nameA, valueA, a = p.pair(a)
		nameB, valueB, b = p.pair(b)
		if c := cmp.Or(strings.Compare(nameA, nameB), p.compareValues(valueA, valueB)); c != 0 || p.odd {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

const quote = `\"`

// pair takes a name and a value off a list of them.
func (p *paths) pair(s string) (name, value, rest string) {
	name, s, ok := strings.Cut(s, quote+":")
	if !ok {
		p.odd = true
		return "", "", ""
	}
	if inner, isText := strings.CutPrefix(s, quote); isText {
		end := strings.Index(inner, quote)
		if end < 0 {
			p.odd = true
			return "", "", ""
		}
		end += 2 * len(quote)
		value, rest = s[:end], s[end:]
	} else if end := strings.IndexByte(s, ','); end >= 0 {
		value, rest = s[:end], s[end:]
	} else {
		value = s
	}
	return name, value, strings.TrimPrefix(rest, ",")
}

// compareValues compares texts with texts and numbers with numbers. Others do not tell elements apart.
func (p *paths) compareValues(a, b string) int {
	switch textA, textB := strings.HasPrefix(a, quote), strings.HasPrefix(b, quote); {
	case textA && textB:
		return strings.Compare(strings.TrimSuffix(a, quote), strings.TrimSuffix(b, quote))
	case textA != textB:
		p.odd = true
		return 0
	}
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX != nil || errY != nil {
		p.odd = true
	}
	return cmp.Compare(x, y)
}

// touches tells whether two sets have a path in common.
func (p *paths) touches(a, b ref) bool {
	for a, b := p.nodes[a].child, p.nodes[b].child; a != 0 && b != 0; {
		switch c := p.compare(a, b); {
		case c < 0:
			a = p.nodes[a].next
		case c > 0:
			b = p.nodes[b].next
		default:
			if p.nodes[a].member && p.nodes[b].member || p.touches(a, b) {
				return true
			}
			a, b = p.nodes[a].next, p.nodes[b].next
		}
	}
	return false
}

// holds tells whether the paths of b are all in a.
func (p *paths) holds(a, b ref) bool {
	x := p.nodes[a].child
	for y := p.nodes[b].child; y != 0; y = p.nodes[y].next {
		for x != 0 && p.compare(x, y) < 0 {
			x = p.nodes[x].next
		}
		if x == 0 || p.compare(x, y) != 0 || p.nodes[y].member && !p.nodes[x].member || !p.holds(x, y) {
			return false
		}
	}
	return true
}

// less makes the set of the paths of a that are not in b.
func (p *paths) less(a, b ref) ref {
	out := p.add(p.nodes[a].kind, p.nodes[a].name)
	var last ref
	y := p.nodes[b].child
	for x := p.nodes[a].child; x != 0; x = p.nodes[x].next {
		for y != 0 && p.compare(y, x) < 0 {
			y = p.nodes[y].next
		}
		if y == 0 || p.compare(y, x) != 0 {
			p.link(out, &last, p.copy(x))
			continue
		}
		rest := p.less(x, y)
		p.nodes[rest].member = p.nodes[x].member && !p.nodes[y].member
		if p.nodes[rest].member || p.nodes[rest].child != 0 {
			p.link(out, &last, rest)
		}
	}
	return out
}

// copy makes a node that has the same children, for another list of siblings.
func (p *paths) copy(r ref) ref {
	n := p.nodes[r]
	n.next = 0
	p.nodes = append(p.nodes, n)
	return ref(len(p.nodes) - 1)
}

// union makes the set of the paths of both.
func (p *paths) union(a, b ref) ref {
	out := p.add(p.nodes[a].kind, p.nodes[a].name)
	p.nodes[out].member = p.nodes[a].member || p.nodes[b].member
	var last ref
	x, y := p.nodes[a].child, p.nodes[b].child
	for x != 0 || y != 0 {
		c := 0
		switch {
		case y == 0:
			c = -1
		case x == 0:
			c = 1
		default:
			c = p.compare(x, y)
		}
		switch {
		case c < 0:
			p.link(out, &last, p.copy(x))
			x = p.nodes[x].next
		case c > 0:
			p.link(out, &last, p.copy(y))
			y = p.nodes[y].next
		default:
			p.link(out, &last, p.union(x, y))
			x, y = p.nodes[x].next, p.nodes[y].next
		}
	}
	return out
}
