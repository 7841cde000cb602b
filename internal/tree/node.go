package tree

import "slices"

// Sizes of a node. A change after a snapshot copies a node of each level: 4 KB in all with 100,000 items. Larger nodes
// are no faster to search and copy more; smaller ones copy less but are slower.
const (
	maxItems = 31
	minItems = maxItems / 2
)

// node is a node of a tree. Only its owner changes it.
type node[E any] struct {
	owner    *owner
	count    int // items in this node and below
	items    []E
	children []*node[E] // nil in a leaf
}

func (n *node[E]) recount() {
	n.count = len(n.items)
	for _, c := range n.children {
		n.count += c.count
	}
}

func (t *Tree[K, E]) newNode(children []*node[E]) *node[E] {
	if t.owner == nil {
		t.owner = new(owner)
	}
	n := &node[E]{owner: t.owner, children: children}
	n.recount()
	return n
}

// own returns a node that t may modify: n itself, or a copy.
func (t *Tree[K, E]) own(n *node[E]) *node[E] {
	if t.owner == nil {
		t.owner = new(owner)
	}
	if n.owner == t.owner {
		return n
	}
	return &node[E]{owner: t.owner, count: n.count, items: roomy(n.items), children: slices.Clone(n.children)}
}

// roomy copies items with a little spare capacity: twice the capacity, as append gives, would mostly be wasted.
func roomy[E any](items []E) []E {
	return append(make([]E, 0, min(maxItems, len(items)+6)), items...)
}

func (t *Tree[K, E]) ownChild(n *node[E], i int) *node[E] {
	c := t.own(n.children[i])
	n.children[i] = c
	return c
}

func (t *Tree[K, E]) insert(n *node[E], key K, e E) (old E, replaced bool) {
	i, found := t.find(n, key)
	if found {
		old, n.items[i] = n.items[i], e
		return old, true
	}
	if n.children == nil {
		if len(n.items) == cap(n.items) {
			n.items = roomy(n.items)
		}
		n.items = slices.Insert(n.items, i, e)
		n.count++
		return old, false
	}
	if c := t.ownChild(n, i); len(c.items) == maxItems {
		t.split(n, i, key)
		return t.insert(n, key, e)
	}
	if old, replaced = t.insert(n.children[i], key, e); !replaced {
		n.count++
	}
	return old, replaced
}

// split divides child i of n, which is full, before key is inserted. If keys come in ascending order, as when a cache
// is filled, the nodes left behind are full and not half full.
func (t *Tree[K, E]) split(n *node[E], i int, key K) {
	left := t.ownChild(n, i)
	mid := maxItems / 2
	if t.compare(&left.items[maxItems-1], key) < 0 {
		mid = maxItems - 1
	}
	up := left.items[mid]
	right := t.newNode(nil)
	right.items = roomy(left.items[mid+1:])
	left.items = roomy(left.items[:mid])
	if left.children != nil {
		right.children = slices.Clone(left.children[mid+1:])
		left.children = slices.Clone(left.children[:mid+1])
	}
	left.recount()
	right.recount()
	n.items = slices.Insert(n.items, i, up)
	n.children = slices.Insert(n.children, i+1, right)
}

// remove removes key, which is below n. A node gets an additional item before the descent into it, so that nothing has
// to be repaired on the way back.
func (t *Tree[K, E]) remove(n *node[E], key K) E {
	i, found := t.find(n, key)
	if n.children == nil {
		e := n.items[i]
		n.items = slices.Delete(n.items, i, i+1)
		n.count--
		return e
	}
	if len(n.children[i].items) <= minItems {
		t.topUp(n, i)
		i, found = t.find(n, key)
	}
	c := t.ownChild(n, i)
	n.count--
	if !found {
		return t.remove(c, key)
	}
	e := n.items[i]
	n.items[i] = t.removeLast(c)
	return e
}

func (t *Tree[K, E]) removeLast(n *node[E]) E {
	if n.children == nil {
		last := n.items[len(n.items)-1]
		n.items = slices.Delete(n.items, len(n.items)-1, len(n.items))
		n.count--
		return last
	}
	if i := len(n.children) - 1; len(n.children[i].items) <= minItems {
		t.topUp(n, i)
	}
	n.count--
	return t.removeLast(t.ownChild(n, len(n.children)-1))
}

// topUp gives child i of n one more item: from a sibling that can spare one, or by joining it with a sibling.
func (t *Tree[K, E]) topUp(n *node[E], i int) {
	switch {
	case i > 0 && len(n.children[i-1].items) > minItems:
		left, c := t.ownChild(n, i-1), t.ownChild(n, i)
		last := len(left.items) - 1
		c.items = slices.Insert(c.items, 0, n.items[i-1])
		n.items[i-1] = left.items[last]
		left.items = slices.Delete(left.items, last, last+1)
		if left.children != nil {
			c.children = slices.Insert(c.children, 0, left.children[last+1])
			left.children = slices.Delete(left.children, last+1, last+2)
		}
		left.recount()
		c.recount()
	case i+1 < len(n.children) && len(n.children[i+1].items) > minItems:
		c, right := t.ownChild(n, i), t.ownChild(n, i+1)
		c.items = append(c.items, n.items[i])
		n.items[i] = right.items[0]
		right.items = slices.Delete(right.items, 0, 1)
		if right.children != nil {
			c.children = append(c.children, right.children[0])
			right.children = slices.Delete(right.children, 0, 1)
		}
		right.recount()
		c.recount()
	case i > 0:
		t.join(n, i-1)
	default:
		t.join(n, i)
	}
}

// join merges the children i and i+1 of n and the item between them into one node.
func (t *Tree[K, E]) join(n *node[E], i int) {
	left, right := t.ownChild(n, i), n.children[i+1]
	left.items = append(append(left.items, n.items[i]), right.items...)
	left.children = append(left.children, right.children...)
	left.recount()
	n.items = slices.Delete(n.items, i, i+1)
	n.children = slices.Delete(n.children, i+1, i+2)
}
