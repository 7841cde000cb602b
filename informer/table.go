package informer

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	btree "github.com/millrace/millrace/internal/tree"
)

// table holds versions by key and by the values of indexes. It has no lock. Copies cost nothing until one side changes,
// so that a reader can take one and leave.
type table[T any] struct {
	versions btree.Tree[Key, *version[T]]
	indexes  []index[T] // in the order of their slots
}

type index[T any] struct {
	name    string
	values  func(*version[T]) []string
	decodes bool // values needs decoded objects
	tree    *btree.Tree[spot, entry[T]]
}

// entry places a version in an index.
type entry[T any] struct {
	value   string
	version *version[T]
}

// spot is where an entry belongs.
type spot struct {
	value string
	key   Key
}

func newTable[T any]() *table[T] {
	return &table[T]{versions: btree.New(func(v **version[T], key Key) int { return (*v).key.Compare(key) })}
}

func newIndexTree[T any]() *btree.Tree[spot, entry[T]] {
	tree := btree.New(func(e *entry[T], at spot) int {
		return cmp.Or(strings.Compare(e.value, at.value), e.version.key.Compare(at.key))
	})
	return &tree
}

// set puts a version under one of its values.
func (ix *index[T]) set(value string, v *version[T]) {
	ix.tree.Set(spot{value, v.key}, entry[T]{value: value, version: v})
}

// emptied returns a table with the same indexes and nothing in it.
func (t *table[T]) emptied() *table[T] {
	fresh := newTable[T]()
	for _, ix := range t.indexes {
		ix.tree = newIndexTree[T]()
		fresh.indexes = append(fresh.indexes, ix)
	}
	return fresh
}

// copied returns a table that shows this one as it is now.
func (t *table[T]) copied() *table[T] {
	same := &table[T]{versions: t.versions.Freeze()}
	for _, ix := range t.indexes {
		frozen := ix.tree.Freeze()
		ix.tree = &frozen
		same.indexes = append(same.indexes, ix)
	}
	return same
}

func (t *table[T]) len() int { return t.versions.Len() }

func (t *table[T]) get(key Key) *version[T] {
	v, _ := t.versions.Get(key)
	return v
}

// decodes reports whether any index looks at decoded objects.
func (t *table[T]) decodes() bool {
	return slices.ContainsFunc(t.indexes, func(ix index[T]) bool { return ix.decodes })
}

// describe computes the terms of a version, once, before it is put. It may be slow and needs no lock.
func (t *table[T]) describe(v *version[T]) {
	v.terms = nil
	for slot := range t.indexes {
		t.describeSlot(v, slot)
	}
}

func (t *table[T]) describeSlot(v *version[T], slot int) {
	for _, value := range t.indexes[slot].values(v) {
		v.terms = append(v.terms, term{slot: slot, value: value})
	}
}

// put adds a described version in the place of the one with its key, which it returns.
func (t *table[T]) put(v *version[T]) *version[T] {
	old, replaced := t.versions.Set(v.key, v)
	if replaced {
		t.withdraw(old, v.terms) // what stays is overwritten below
	}
	for _, term := range v.terms {
		t.indexes[term.slot].set(term.value, v)
	}
	return old
}

func (t *table[T]) remove(key Key) *version[T] {
	old, found := t.versions.Delete(key)
	if found {
		t.withdraw(old, nil)
	}
	return old
}

func (t *table[T]) withdraw(old *version[T], stay []term) {
	for _, term := range old.terms {
		if slices.Contains(stay, term) {
			continue
		}
		t.indexes[term.slot].tree.Delete(spot{term.value, old.key})
	}
}

func (t *table[T]) index(name string) *index[T] {
	for i := range t.indexes {
		if t.indexes[i].name == name {
			return &t.indexes[i]
		}
	}
	return nil
}

// addIndex adds an index over what the table holds.
func (t *table[T]) addIndex(ix index[T]) {
	slot := len(t.indexes)
	ix.tree = newIndexTree[T]()
	t.indexes = append(t.indexes, ix)
	t.versions.All(func(v *version[T]) bool {
		before := len(v.terms)
		t.describeSlot(v, slot)
		for _, term := range v.terms[before:] {
			t.indexes[slot].set(term.value, v)
		}
		return true
	})
}

func (t *table[T]) all() iter.Seq[*version[T]] {
	return func(yield func(*version[T]) bool) { t.versions.All(yield) }
}

// inNamespace needs no index: the keys are ordered by namespace first.
func (t *table[T]) inNamespace(namespace string) iter.Seq[*version[T]] {
	return func(yield func(*version[T]) bool) {
		t.versions.Ascend(Key{Namespace: namespace}, func(v *version[T]) bool {
			return v.key.Namespace == namespace && yield(v)
		})
	}
}

func (ix *index[T]) with(value string) iter.Seq[*version[T]] {
	return func(yield func(*version[T]) bool) {
		ix.tree.Ascend(spot{value: value}, func(e entry[T]) bool {
			return e.value == value && yield(e.version)
		})
	}
}

// eachValue ranges over the different values in the index.
func (ix *index[T]) eachValue(yield func(string) bool) {
	last, any := "", false
	ix.tree.All(func(e entry[T]) bool {
		if any && e.value == last {
			return true
		}
		last, any = e.value, true
		return yield(e.value)
	})
}
