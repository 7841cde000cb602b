// Package tree is a sorted set that can be frozen in O(1), for caches that are read as they were at one moment while they
// change.
//
// It is our own because the ready-made ones either keep replaced items alive in the unused half of a split node's array,
// which for the objects of a cache means kilobytes each, or can't tell the rank of an item.
package tree

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
