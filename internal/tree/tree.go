// Package tree is a sorted set that can be frozen in O(1), for caches that are read at one state while they change.
//
// It exists because the available packages have one of two problems. Some keep replaced items alive in the unused half
// of a split node's array, which for the objects of a cache means kilobytes each. Others cannot compute the rank of an
// item.
package tree

// Tree is a B-tree of items E, ordered by their keys K. A tree copies the nodes that it changes and does not own. A
// tree is not safe for concurrent use, with one exception: it may be read while it is being frozen. A frozen tree may
// be read by any number of goroutines.
type Tree[K, E any] struct {
	compare func(item *E, key K) int
	root    *node[E]
	owner   *owner
}

// owner has an identity and nothing else. It must not have size zero, or all owners might have the same address.
type owner struct{ _ byte }

// New makes an empty tree. compare returns a negative number if an item comes before a key, zero if it has that key, a
// positive number otherwise.
func New[K, E any](compare func(item *E, key K) int) Tree[K, E] {
	return Tree[K, E]{compare: compare}
}

// Freeze returns the current state of the tree, for reading.
func (t *Tree[K, E]) Freeze() Tree[K, E] {
	t.owner = nil
	return Tree[K, E]{compare: t.compare, root: t.root}
}

// Thaw returns a modifiable copy of a frozen tree, which itself does not change.
func (t *Tree[K, E]) Thaw() Tree[K, E] { return Tree[K, E]{compare: t.compare, root: t.root} }

// Len returns the number of items.
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

// All yields the items in order, until yield returns false.
func (t *Tree[K, E]) All(yield func(E) bool) {
	if t.root != nil {
		t.root.all(yield)
	}
}

// Ascend yields the items at or after a key, until yield returns false.
func (t *Tree[K, E]) Ascend(from K, yield func(E) bool) {
	if t.root != nil {
		t.ascend(t.root, from, yield)
	}
}

// Before returns the number of items before the first one for which beyond is true. beyond must be true for all later
// items, too.
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

// Set stores an item at a key and returns the previous one.
func (t *Tree[K, E]) Set(key K, e E) (old E, replaced bool) {
	if t.root == nil {
		t.root = t.newNode(nil)
	}
	t.root = t.own(t.root)
	if len(t.root.items) == maxItems {
		t.root = t.newNode([]*node[E]{t.root})
		t.split(t.root, 0, key)
	}
	return t.insert(t.root, key, e)
}

// Change calls change with the item at a key, if there is one. The item's key must not change.
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

// Delete removes the item at a key and returns it.
func (t *Tree[K, E]) Delete(key K) (old E, found bool) {
	if _, found = t.Get(key); !found {
		return old, false // the descent relies on finding it
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

// search returns the index of the first item for which beyond is true.
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

// find returns the index of a key in a node, or where it would be inserted.
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
	for ; i < len(n.items); i++ { // everything from here on comes after it
		if !yield(n.items[i]) || n.children != nil && !n.children[i+1].all(yield) {
			return false
		}
	}
	return true
}
