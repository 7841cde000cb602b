package state

import (
	"iter"
	"slices"

	btree "github.com/millrace/millrace/internal/tree"
)

// Table holds versions by key and by the values of indexes. It has no lock. A copy costs nothing until the table or the
// copy changes, so a reader takes a copy and reads it without a lock.
type Table[T any] struct {
	versions btree.Tree[Key, *Version[T]]
	indexes  []Entries[T] // in the order of term.slot
}

// NewTable returns an empty table without indexes.
func NewTable[T any]() *Table[T] {
	return &Table[T]{versions: btree.New(func(v **Version[T], key Key) int { return (*v).Key.Compare(key) })}
}

// Emptied returns an empty table with the same indexes.
func (t *Table[T]) Emptied() *Table[T] {
	fresh := NewTable[T]()
	fresh.AdoptIndexes(t)
	return fresh
}

// AdoptIndexes adds the indexes of another table, without entries. The table must have none yet.
func (t *Table[T]) AdoptIndexes(from *Table[T]) {
	for _, ix := range from.indexes {
		ix.tree = newIndexTree[T]()
		t.indexes = append(t.indexes, ix)
	}
}

// Copy returns a copy of the table as it is now. It changes marks of what is shared in this table, so it needs a
// writer's lock.
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

// Decodes reports whether any index needs decoded objects.
func (t *Table[T]) Decodes() bool {
	return slices.ContainsFunc(t.indexes, func(ix Entries[T]) bool { return ix.decodes })
}

// Describe computes the version's values for all indexes. It is called once, before Put or Fill. It may be slow and
// needs no lock.
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

// Put adds a described version and returns the version with the same key that it replaces, or nil.
func (t *Table[T]) Put(v *Version[T]) *Version[T] {
	old, replaced := t.versions.Set(v.Key, v)
	if replaced {
		t.removeEntries(old, v.terms) // entries under the same values are overwritten below
	}
	t.addEntries(v)
	return old
}

// PutUnindexed adds a version without index entries; Fill adds those.
func (t *Table[T]) PutUnindexed(v *Version[T]) { t.versions.Set(v.Key, v) }

// RemoveUnindexed removes a version that PutUnindexed has added.
func (t *Table[T]) RemoveUnindexed(key Key) { t.versions.Delete(key) }

// Fill adds all versions to the indexes. Versions of the former table have been described already.
func (t *Table[T]) Fill(former *Table[T]) {
	if len(t.indexes) == 0 {
		return
	}
	for v := range t.All() {
		if former.Get(v.Key) != v {
			t.Describe(v)
		}
		t.addEntries(v)
	}
}

func (t *Table[T]) addEntries(v *Version[T]) {
	for _, term := range v.terms {
		t.indexes[term.slot].set(term.value, v)
	}
}

// Remove removes the version with a key and returns it, or nil.
func (t *Table[T]) Remove(key Key) *Version[T] {
	old, found := t.versions.Delete(key)
	if found {
		t.removeEntries(old, nil)
	}
	return old
}

func (t *Table[T]) removeEntries(old *Version[T], stay []term) {
	for _, term := range old.terms {
		if slices.Contains(stay, term) {
			continue
		}
		t.indexes[term.slot].tree.Delete(entryKey{term.value, old.Key})
	}
}

// All ranges over all versions, ordered by key.
func (t *Table[T]) All() iter.Seq[*Version[T]] {
	return func(yield func(*Version[T]) bool) { t.versions.All(yield) }
}

// InNamespace ranges over a namespace's versions. It needs no index, because keys are ordered by namespace first.
func (t *Table[T]) InNamespace(namespace string) iter.Seq[*Version[T]] {
	return func(yield func(*Version[T]) bool) {
		t.versions.Ascend(Key{Namespace: namespace}, func(v *Version[T]) bool {
			return v.Key.Namespace == namespace && yield(v)
		})
	}
}
