package state

import (
	"iter"
	"slices"

	btree "github.com/millrace/millrace/internal/tree"
)

// Table holds versions by key and by the values of indexes. It has no lock. A copy costs nothing until one side changes,
// so a reader takes one and reads it without a lock.
type Table[T any] struct {
	versions btree.Tree[Key, *Version[T]]
	indexes  []Entries[T] // in the order of their slots
}

// NewTable returns an empty table without indexes.
func NewTable[T any]() *Table[T] {
	return &Table[T]{versions: btree.New(func(v **Version[T], key Key) int { return (*v).Key.Compare(key) })}
}

// Emptied returns a table with the same indexes and nothing in it.
func (t *Table[T]) Emptied() *Table[T] {
	fresh := NewTable[T]()
	fresh.AdoptIndexes(t)
	return fresh
}

// AdoptIndexes gives the table, which must have none, the indexes of another one, empty.
func (t *Table[T]) AdoptIndexes(from *Table[T]) {
	for _, ix := range from.indexes {
		ix.tree = newIndexTree[T]()
		t.indexes = append(t.indexes, ix)
	}
}

// Copy returns a table that shows this one as it is now. It changes this one's marks of what is shared, so it needs the
// lock that a writer needs.
func (t *Table[T]) Copy() *Table[T] {
	same := &Table[T]{versions: t.versions.Freeze()}
	for _, ix := range t.indexes {
		frozen := ix.tree.Freeze()
		ix.tree = &frozen
		same.indexes = append(same.indexes, ix)
	}
	return same
}

// Len returns the number of versions.
func (t *Table[T]) Len() int { return t.versions.Len() }

// Get returns the version with a key, or nil.
func (t *Table[T]) Get(key Key) *Version[T] {
	v, _ := t.versions.Get(key)
	return v
}

// Decodes reports whether any index looks at decoded objects.
func (t *Table[T]) Decodes() bool {
	return slices.ContainsFunc(t.indexes, func(ix Entries[T]) bool { return ix.decodes })
}

// Describe computes under which values the indexes have a version. It is called once, before Put or Fill. It may be slow
// and needs no lock.
func (t *Table[T]) Describe(v *Version[T]) {
	v.terms = nil
	for slot := range t.indexes {
		t.describeSlot(v, slot)
	}
}

func (t *Table[T]) describeSlot(v *Version[T], slot int) {
	for _, value := range t.indexes[slot].values(v) {
		v.terms = append(v.terms, term{slot: slot, value: value})
	}
}

// Put adds a described version in the place of the one with its key, which it returns.
func (t *Table[T]) Put(v *Version[T]) *Version[T] {
	old, replaced := t.versions.Set(v.Key, v)
	if replaced {
		t.withdraw(old, v.terms) // entries under the same values are overwritten below
	}
	t.enter(v)
	return old
}

// PutAside adds a version that no index shows until Fill.
func (t *Table[T]) PutAside(v *Version[T]) { t.versions.Set(v.Key, v) }

// RemoveAside takes back what PutAside has added.
func (t *Table[T]) RemoveAside(key Key) { t.versions.Delete(key) }

// Fill puts all versions into the indexes. Those of the former table are described already.
func (t *Table[T]) Fill(former *Table[T]) {
	if len(t.indexes) == 0 {
		return
	}
	for v := range t.All() {
		if former.Get(v.Key) != v {
			t.Describe(v)
		}
		t.enter(v)
	}
}

func (t *Table[T]) enter(v *Version[T]) {
	for _, term := range v.terms {
		t.indexes[term.slot].set(term.value, v)
	}
}

// Remove removes the version with a key and returns it, or nil.
func (t *Table[T]) Remove(key Key) *Version[T] {
	old, found := t.versions.Delete(key)
	if found {
		t.withdraw(old, nil)
	}
	return old
}

func (t *Table[T]) withdraw(old *Version[T], stay []term) {
	for _, term := range old.terms {
		if slices.Contains(stay, term) {
			continue
		}
		t.indexes[term.slot].tree.Delete(spot{term.value, old.Key})
	}
}

// All ranges over all versions, ordered by key.
func (t *Table[T]) All() iter.Seq[*Version[T]] {
	return func(yield func(*Version[T]) bool) { t.versions.All(yield) }
}

// InNamespace ranges over a namespace's versions. It needs no index, since keys are ordered by namespace first.
func (t *Table[T]) InNamespace(namespace string) iter.Seq[*Version[T]] {
	return func(yield func(*Version[T]) bool) {
		t.versions.Ascend(Key{Namespace: namespace}, func(v *Version[T]) bool {
			return v.Key.Namespace == namespace && yield(v)
		})
	}
}
