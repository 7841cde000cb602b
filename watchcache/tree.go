package watchcache

import "slices"

// Sizes of a node. A change after a snapshot copies a node of each level, 4 KB in all with 100,000 objects. Bigger nodes
// are no faster to search and copy more; smaller ones copy less but are slower.
const (
	mostItems  = 31
	leastItems = mostItems / 2
)

// tree is a B-tree of objects by key that can be frozen in O(1): nodes are copied when they are changed by a tree that
// does not own them. It is our own because the ready-made ones either keep replaced objects alive in the unused half of
// a split node's array, which here means kilobytes for each, or can't tell the rank of a key.
//
// A tree is not safe for concurrent use; a frozen one may be read by anyone.
type tree struct {
	root  *node
	owner *owner
}

// owner has an identity and nothing else. It must have a size, or all would share one address.
type owner struct{ _ byte }

type item struct {
	key    string
	object *Object
}

type node struct {
	owner    *owner
	count    int // objects in this node and below
	items    []item
	children []*node // nil in a leaf
}

// freeze returns the tree as it is now, for reading.
func (t *tree) freeze() tree {
	t.owner = nil
	return tree{root: t.root}
}

// thaw returns a tree that begins like t and can be changed without t being touched.
func (t tree) thaw() tree { return tree{root: t.root} }

func (t tree) len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

func (t tree) get(key string) *Object {
	for n := t.root; n != nil; {
		i, found := n.find(key)
		if found {
			return n.items[i].object
		}
		if n.children == nil {
			return nil
		}
		n = n.children[i]
	}
	return nil
}

// ascend yields the objects whose keys are at or after from, until yield says stop.
func (t tree) ascend(from string, yield func(*Object) bool) {
	if t.root != nil {
		t.root.ascend(from, yield)
	}
}

// rank counts the keys before key.
func (t tree) rank(key string) int {
	rank := 0
	for n := t.root; n != nil; {
		i, found := n.find(key)
		rank += i
		if n.children == nil {
			return rank
		}
		for _, c := range n.children[:i] {
			rank += c.count
		}
		if found {
			return rank + n.children[i].count
		}
		n = n.children[i]
	}
	return rank
}

// set puts an object under key and returns the one that was there. The key that is there already is kept.
func (t *tree) set(key string, o *Object) *Object {
	it := item{key, o}
	if t.root == nil {
		t.root = t.newNode(nil)
	}
	t.root = t.own(t.root)
	if len(t.root.items) == mostItems {
		t.root = t.newNode([]*node{t.root})
		t.split(t.root, 0, key)
	}
	return t.insert(t.root, it)
}

// delete removes key and returns its object, or nil.
func (t *tree) delete(key string) *Object {
	if t.get(key) == nil {
		return nil // so that the way down may count on finding it
	}
	t.root = t.own(t.root)
	o := t.remove(t.root, key)
	for len(t.root.items) == 0 {
		if t.root.children == nil {
			t.root = nil
			break
		}
		t.root = t.root.children[0]
	}
	return o
}

func (n *node) find(key string) (int, bool) {
	low, high := 0, len(n.items)
	for low < high {
		mid := int(uint(low+high) / 2)
		if n.items[mid].key < key {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(n.items) && n.items[low].key == key
}

func (n *node) ascend(from string, yield func(*Object) bool) bool {
	i, _ := n.find(from)
	for ; i < len(n.items); i++ {
		if n.children != nil && !n.children[i].ascend(from, yield) {
			return false
		}
		if !yield(n.items[i].object) {
			return false
		}
		from = "" // everything that follows is after it
	}
	return n.children == nil || n.children[i].ascend(from, yield)
}

func (n *node) recount() {
	n.count = len(n.items)
	for _, c := range n.children {
		n.count += c.count
	}
}

func (t *tree) newNode(children []*node) *node {
	if t.owner == nil {
		t.owner = new(owner)
	}
	n := &node{owner: t.owner, children: children}
	n.recount()
	return n
}

// own returns a node that t may change: n itself, or a copy.
func (t *tree) own(n *node) *node {
	if t.owner == nil {
		t.owner = new(owner)
	}
	if n.owner == t.owner {
		return n
	}
	c := &node{owner: t.owner, count: n.count, items: roomy(n.items), children: slices.Clone(n.children)}
	return c
}

// roomy copies items with a little room for more: twice the room, as append gives, would waste most of it.
func roomy(items []item) []item {
	return append(make([]item, 0, min(mostItems, len(items)+6)), items...)
}

func (t *tree) ownChild(n *node, i int) *node {
	c := t.own(n.children[i])
	n.children[i] = c
	return c
}

func (t *tree) insert(n *node, it item) *Object {
	i, found := n.find(it.key)
	if found {
		old := n.items[i].object
		n.items[i].object = it.object
		return old
	}
	if n.children == nil {
		if len(n.items) == cap(n.items) {
			n.items = roomy(n.items)
		}
		n.items = slices.Insert(n.items, i, it)
		n.count++
		return nil
	}
	if c := t.ownChild(n, i); len(c.items) == mostItems {
		t.split(n, i, it.key)
		return t.insert(n, it)
	}
	old := t.insert(n.children[i], it)
	if old == nil {
		n.count++
	}
	return old
}

// split divides child i of n, which is full, before key comes in. Keys that come in ascending order, as they do when a
// cache is filled, leave full nodes behind rather than half full ones.
func (t *tree) split(n *node, i int, key string) {
	left := t.ownChild(n, i)
	mid := mostItems / 2
	if left.items[mostItems-1].key < key {
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
func (t *tree) remove(n *node, key string) *Object {
	i, found := n.find(key)
	if n.children == nil {
		o := n.items[i].object
		n.items = slices.Delete(n.items, i, i+1)
		n.count--
		return o
	}
	if len(n.children[i].items) <= leastItems {
		t.topUp(n, i)
		i, found = n.find(key)
	}
	c := t.ownChild(n, i)
	n.count--
	if !found {
		return t.remove(c, key)
	}
	o := n.items[i].object
	n.items[i] = t.removeLast(c)
	return o
}

func (t *tree) removeLast(n *node) item {
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
func (t *tree) topUp(n *node, i int) {
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
func (t *tree) join(n *node, i int) {
	left, right := t.ownChild(n, i), n.children[i+1]
	left.items = append(append(left.items, n.items[i]), right.items...)
	left.children = append(left.children, right.children...)
	left.recount()
	n.items = slices.Delete(n.items, i, i+1)
	n.children = slices.Delete(n.children, i+1, i+2)
}
