package ownership

import (
	"slices"
	"strconv"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// treeWalk goes through trees. There is no null in what it takes, so nil stands for what is not there.
type treeWalk struct {
	*comparison
	*trees
}

// findTrees compares two objects. Without an old one all is new.
func (c *comparison) findTrees(t *trees, old, now map[string]any) {
	c.reset()
	c.lost, c.keys, c.items = false, c.keys[:0], c.items[:0]
	both := c.root()
	w := treeWalk{c, t}
	atom, ok := t.schema.Resolve(t.root)
	if !ok || atom.Map == nil || atomicMap(atom.Map) {
		c.odd = true
		return
	}
	w.maps(atom.Map, old, now, t.aside, both)
	c.changed, c.gone = both, c.root()
	if c.lost {
		c.changed, c.gone = c.only(both, false), c.only(both, true)
	}
}

// at compares what is at one place, and notes what differs there and below.
func (w treeWalk) at(of schema.TypeRef, l, r any, skip *aside, to ref) {
	atom, ok := w.schema.Resolve(of)
	if !ok {
		w.odd = true
		return
	}
	some := r
	if r == nil {
		some = l
	}
	switch some.(type) {
	case map[string]any:
		a, isA := l.(map[string]any)
		b, isB := r.(map[string]any)
		if atom.Map == nil || !isA && l != nil || !isB && r != nil {
			w.odd = true
			return
		}
		if !atomicMap(atom.Map) && len(a)+len(b) > 0 {
			w.maps(atom.Map, a, b, skip, to)
			w.mark(l, r, to)
			return
		}
	case []any:
		a, isA := l.([]any)
		b, isB := r.([]any)
		if atom.List == nil || !isA && l != nil || !isB && r != nil {
			w.odd = true
			return
		}
		if !atomicList(atom.List) && len(a)+len(b) > 0 {
			w.lists(atom.List, a, b, to)
			w.mark(l, r, to)
			return
		}
	default:
		w.odd = w.odd || nested(l)
	}
	if l != nil && !w.valid(of, l, repeatable) || r != nil && !w.valid(of, r, repeatable) {
		w.odd = true
		return
	}
	if l != nil && r != nil && !sameTree(l, r) {
		w.nodes[to].member = true
	}
	w.mark(l, r, to)
}

// nested tells values that have parts.
func nested(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// mark notes what only one side has.
func (w treeWalk) mark(l, r any, to ref) {
	if l == nil {
		w.nodes[to].member = true
	}
	if r == nil {
		w.nodes[to].gone, w.lost = true, true
	}
}

// keep links a node if there is something to say of it.
func (w treeWalk) keep(at, to ref, last *ref) {
	if w.said(at) {
		w.link(to, last, at)
	} else {
		w.nodes = w.nodes[:at]
	}
}

func (w treeWalk) maps(m *schema.Map, l, r map[string]any, skip *aside, to ref) {
	from := len(w.keys)
	for name := range r {
		w.keys = append(w.keys, name)
	}
	for name := range l {
		if _, both := r[name]; !both {
			w.keys = append(w.keys, name)
		}
	}
	names := w.keys[from:]
	slices.Sort(names)
	var last ref
	for _, name := range names {
		x, hasX := l[name]
		y, hasY := r[name]
		of, _, known := member(m, name)
		if !known || hasX && x == nil || hasY && y == nil {
			w.odd = true
			return
		}
		inner := skip.part(name)
		if inner != nil && inner.whole {
			w.odd = w.odd || hasX && !w.valid(of, x, repeatable) || hasY && !w.valid(of, y, repeatable)
			continue
		}
		at := w.add(fieldStep, name)
		w.at(of, x, y, inner, at)
		if w.odd {
			return
		}
		if inner != nil && inner.named {
			w.nodes[at].member, w.nodes[at].gone = false, false
		}
		w.odd = w.said(at) && !ordinary(name)
		w.keep(at, to, &last)
	}
	w.keys = w.keys[:from]
}

// item is one element of a list in a tree that is told from others by a name.
type item struct {
	kind  step
	name  string
	end   int // of the name in the text of all names
	value any
}

func (w treeWalk) lists(list *schema.List, l, r []any, to ref) {
	if w.validList(list, l, repeatable) && slices.EqualFunc(l, r, sameTree) {
		return
	}
	from := len(w.items)
	w.named(list, l)
	middle := len(w.items)
	w.named(list, r)
	// Elements of lists within come behind; if they move the stack, these parts stay as they are.
	left, right := w.items[from:middle], w.items[middle:]
	var last ref
	for i, j := 0, 0; (i < len(left) || j < len(right)) && !w.odd; {
		order := 0
		switch {
		case j == len(right):
			order = -1
		case i == len(left):
			order = 1
		default:
			order = w.compareNames(left[i].kind, left[i].name, right[j].name)
		}
		var e item
		var x, y any
		if order <= 0 {
			e, x = left[i], left[i].value
			i++
		}
		if order >= 0 {
			e, y = right[j], right[j].value
			j++
		}
		at := w.add(e.kind, e.name)
		w.at(list.ElementType, x, y, nil, at)
		w.keep(at, to, &last)
	}
	w.items = w.items[:from]
}

// named names the elements of a list and puts them on the stack, ordered by name. Duplicates are for the library.
func (w treeWalk) named(list *schema.List, elements []any) {
	from := len(w.items)
	w.text = w.text[:0]
	for _, value := range elements {
		if !identified(list, value) {
			w.odd = true
			return
		}
		kind := w.nameItem(list, value)
		w.items = append(w.items, item{kind: kind, value: value, end: len(w.text)})
	}
	names, start := string(w.text), 0 // one text for all, cut into pieces
	all := w.items[from:]
	for i := range all {
		all[i].name, start = names[start:all[i].end], all[i].end
	}
	inOrder := func(a, b item) int { return w.compareNames(a.kind, a.name, b.name) }
	if !slices.IsSortedFunc(all, inOrder) {
		slices.SortFunc(all, inOrder)
	}
	for i := 1; i < len(all); i++ {
		w.odd = w.odd || all[i].name == all[i-1].name
	}
}

// nameItem appends the name of an element to the text.
func (w treeWalk) nameItem(list *schema.List, value any) (kind step) {
	if len(list.Keys) == 0 {
		w.itemName(value)
		return valueStep
	}
	w.itemKeys(list.Keys, value.(map[string]any))
	return keyStep
}

// itemKeys names an element by its keys, which the library sorts.
func (w treeWalk) itemKeys(keys []string, element map[string]any) {
	if len(keys) > 1 && !slices.IsSorted(keys) {
		keys = slices.Sorted(slices.Values(keys))
	}
	w.text = append(w.text, '{')
	for i, key := range keys {
		if i > 0 {
			w.text = append(w.text, ',')
		}
		w.odd = w.odd || !ordinary(key)
		w.text = append(w.text, quote...)
		w.text = append(w.text, key...)
		w.text = append(w.text, quote+":"...)
		w.itemName(element[key])
	}
	w.text = append(w.text, '}')
}

func (w treeWalk) itemName(value any) {
	switch v := value.(type) {
	case string:
		w.odd = w.odd || !ordinary(v)
		w.text = append(w.text, quote...)
		w.text = append(w.text, v...)
		w.text = append(w.text, quote...)
	case int64:
		w.text = strconv.AppendInt(w.text, v, 10)
	default:
		w.odd = true
	}
}
