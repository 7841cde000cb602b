package ownership

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// parsed remembers sets that have been read: the objects of one kind mostly have few different ones, and to copy one is
// less work than to read it. Places are few, and sets that share one displace each other.
type parsed struct {
	places [64]atomic.Pointer[knownSet]
}

// knownSet is a set that was read. Its nodes refer to each other by their places among themselves, and to their names
// in the text.
type knownSet struct {
	text  string
	nodes []node
}

// longestParsed bounds the memory.
const longestParsed = 8 << 10

var parsedSeed = maphash.MakeSeed()

// read adds a set that is written in a text. It makes the comparison odd if the set can't have been made from values of
// this shape.
func (q *quick) read(c *comparison, text string) ref {
	place := &q.parsed.places[maphash.String(parsedSeed, text)%uint64(len(q.parsed.places))]
	base := ref(len(c.nodes))
	if t := place.Load(); t != nil && t.text == text {
		c.nodes = append(c.nodes, t.nodes...)
		shift(c.nodes[base:], base)
		return base
	}
	text = strings.Clone(text) // names are parts of it
	set := c.parse(text)
	if c.odd || c.shuffled && q.trees == nil || !q.fits(&c.paths, set) {
		c.odd = true
		return set
	}
	if len(text) <= longestParsed {
		t := &knownSet{text, append([]node(nil), c.nodes[base:]...)}
		shift(t.nodes, -base)
		place.Store(t)
	}
	return set
}

// shift changes by how much nodes refer to each other.
func shift(nodes []node, by ref) {
	for i := range nodes {
		if n := &nodes[i]; n.child != 0 {
			n.child += by
		}
		if n := &nodes[i]; n.next != 0 {
			n.next += by
		}
	}
}
