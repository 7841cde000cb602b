// Package tree is a sorted set that can be frozen in O(1), for caches that are read as they were at one moment while they
// change.
//
// It is our own because the ready-made ones either keep replaced items alive in the unused half of a split node's array,
// which for the objects of a cache means kilobytes each, or can't tell the rank of an item.
package tree

import "slices"

// Sizes of a node. A change after a snapshot copies a node of each level, 4 KB in all with 100,000 items. Bigger nodes
// are no faster to search and copy more; smaller ones copy less but are slower.
const (
	mostItems  = 31
	leastItems = mostItems / 2
)

// Tree is a B-tree of items E in the order of their keys K. Nodes are copied when they are changed by a tree that does
// not own them. A tree is not safe for concurrent use, but it may be read while it is being frozen; a frozen one may be
// read by anyone.
type Tree[K, E any] struct {
	compare func(item *E, key K) int
	root    *node[E]
	owner   *owner
}

// owner has an identity and nothing else. It must have a size, or all would share one address.
type owner struct{ _ byte }

type node[E any] struct {
	owner    *owner
	count    int // items in this node and below
	items    []E
	children []*node[E] // nil in a leaf
}

// New makes a tree without items. compare tells where an item stands: before a key (negative), behind it, or at it.
func New[K, E any](compare func(item *E, key K) int) Tree[K, E] {
	return Tree[K, E]{compare: compare}
}

// Freeze returns the tree as it is now, for reading.
func (t *Tree[K, E]) Freeze() Tree[K, E] {
	t.owner = nil
	return Tree[K, E]{compare: t.compare, root: t.root}
}

// Thaw returns a tree that begins like a frozen one and can be changed without that being touched.
func (t *Tree[K, E]) Thaw() Tree[K, E] { return Tree[K, E]{compare: t.compare, root: t.root} }

// Len tells how many items there are.
func (t *Tree[K, E]) Len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// Get returns the item at a key.
func (t *Tree[K, E]) Get(key K) (found E, ok bool) {
	for n := t.root; n != nil; {
		i, found := t.find(n, key)
		if found {
			return n.items[i], true
		}
		if n.children == nil {
			break
		}
		n = n.children[i]
	}
	return found, false
}

// All yields the items in order, until yield says stop.
func (t *Tree[K, E]) All(yield func(E) bool) {
	if t.root != nil {
		t.root.all(yield)
	}
}

// Ascend yields the items at or behind a key, until yield says stop.
func (t *Tree[K, E]) Ascend(from K, yield func(E) bool) {
	if t.root != nil {
		t.ascend(t.root, from, yield)
	}
}

// Before counts the items before the first one of which beyond is true. It must be true of all that follow, too.
func (t *Tree[K, E]) Before(beyond func(item *E) bool) (count int) {
	for n := t.root; n != nil; {
		i := search(n.items, beyond)
		count += i
		if n.children == nil {
			break
		}
		for _, c := range n.children[:i] {
			count += c.count
		}
		n = n.children[i]
	}
	return count
}

// Set puts an item at a key and returns the one that was there.
func (t *Tree[K, E]) Set(key K, e E) (old E, replaced bool) {
	if t.root == nil {
		t.root = t.newNode(nil)
	}
	t.root = t.own(t.root)
	if len(t.root.items) == mostItems {
		t.root = t.newNode([]*node[E]{t.root})
		t.split(t.root, 0, key)
	}
	return t.insert(t.root, key, e)
}

// Change has the item at a key changed, unless there is none. Its key must stay what it is.
func (t *Tree[K, E]) Change(key K, change func(item *E)) bool {
	if t.root == nil {
		return false
	}
	t.root = t.own(t.root)
	for n := t.root; ; {
		i, found := t.find(n, key)
		if found {
			change(&n.items[i])
			return true
		}
		if n.children == nil {
			return false
		}
		n = t.ownChild(n, i)
	}
}

// Delete takes out the item at a key and returns it.
func (t *Tree[K, E]) Delete(key K) (old E, found bool) {
	if _, found = t.Get(key); !found {
		return old, false // so that the way down may count on finding it
	}
	t.root = t.own(t.root)
	old = t.remove(t.root, key)
	for len(t.root.items) == 0 {
		if t.root.children == nil {
			t.root = nil
			break
		}
		t.root = t.root.children[0]
	}
	return old, true
}

// search finds the first item that is beyond.
func search[E any](items []E, beyond func(*E) bool) int {
	low, high := 0, len(items)
	for low < high {
		if mid := int(uint(low+high) / 2); beyond(&items[mid]) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// find is where a key is in a node, or would be.
func (t *Tree[K, E]) find(n *node[E], key K) (int, bool) {
	low, high := 0, len(n.items)
	for low < high {
		mid := int(uint(low+high) / 2)
		switch c := t.compare(&n.items[mid], key); {
		case c < 0:
			low = mid + 1
		case c > 0:
			high = mid
		default:
			return mid, true
		}
	}
	return low, false
}

func (n *node[E]) all(yield func(E) bool) bool {
	for i := range n.items {
		if n.children != nil && !n.children[i].all(yield) || !yield(n.items[i]) {
			return false
		}
	}
	return n.children == nil || n.children[len(n.items)].all(yield)
}

func (t *Tree[K, E]) ascend(n *node[E], from K, yield func(E) bool) bool {
	i, found := t.find(n, from)
	if n.children != nil && !found && !t.ascend(n.children[i], from, yield) {
		return false
	}
	for ; i < len(n.items); i++ { // everything from here on is behind it
		if !yield(n.items[i]) || n.children != nil && !n.children[i+1].all(yield) {
			return false
		}
	}
	return true
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

// own returns a node that t may change: n itself, or a copy.
func (t *Tree[K, E]) own(n *node[E]) *node[E] {
	if t.owner == nil {
		t.owner = new(owner)
	}
	if n.owner == t.owner {
		return n
	}
	return &node[E]{owner: t.owner, count: n.count, items: roomy(n.items), children: slices.Clone(n.children)}
}

// roomy copies items with a little room for more: twice the room, as append gives, would waste most of it.
func roomy[E any](items []E) []E {
	return append(make([]E, 0, min(mostItems, len(items)+6)), items...)
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
	if c := t.ownChild(n, i); len(c.items) == mostItems {
		t.split(n, i, key)
		return t.insert(n, key, e)
	}
	if old, replaced = t.insert(n.children[i], key, e); !replaced {
		n.count++
	}
	return old, replaced
}

// split divides child i of n, which is full, before key comes in. Keys that come in ascending order, as they do when a
// cache is filled, leave full nodes behind rather than half full ones.
func (t *Tree[K, E]) split(n *node[E], i int, key K) {
	left := t.ownChild(n, i)
	mid := mostItems / 2
	if t.compare(&left.items[mostItems-1], key) < 0 {
		mid = mostItems - 1
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

// remove takes key, which is below n, out. A node is topped up before the way leads into it, so that nothing has to be
// mended on the way back.
func (t *Tree[K, E]) remove(n *node[E], key K) E {
	i, found := t.find(n, key)
	if n.children == nil {
		e := n.items[i]
		n.items = slices.Delete(n.items, i, i+1)
		n.count--
		return e
	}
	if len(n.children[i].items) <= leastItems {
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
	if i := len(n.children) - 1; len(n.children[i].items) <= leastItems {
		t.topUp(n, i)
	}
	n.count--
	return t.removeLast(t.ownChild(n, len(n.children)-1))
}

// topUp gives child i of n an item more: from a neighbour that can spare one, or by joining it with a neighbour.
func (t *Tree[K, E]) topUp(n *node[E], i int) {
	switch {
	case i > 0 && len(n.children[i-1].items) > leastItems:
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
	case i+1 < len(n.children) && len(n.children[i+1].items) > leastItems:
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

// join makes one node of the children i and i+1 of n and the item between them.
func (t *Tree[K, E]) join(n *node[E], i int) {
	left, right := t.ownChild(n, i), n.children[i+1]
	left.items = append(append(left.items, n.items[i]), right.items...)
	left.children = append(left.children, right.children...)
	left.recount()
	n.items = slices.Delete(n.items, i, i+1)
	n.children = slices.Delete(n.children, i+1, i+2)
}
