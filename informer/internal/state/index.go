package state

import (
	"cmp"
	"iter"
	"strings"

	btree "github.com/millrace/millrace/internal/tree"
)

// Index describes an index. Two tables have the same index if they have the same pointer.
type Index[T any] struct {
	Values func(T) []string // nil: the values are those of Path
	Path   *FieldPath
}

// Entries are one index of a table.
type Entries[T any] struct {
	index   *Index[T]
	values  func(*Version[T]) []string
	decodes bool // finding the values needs decoded objects
	tree    *btree.Tree[entryKey, entry[T]]
}

// entry is one version under one value.
type entry[T any] struct {
	value   string
	version *Version[T]
}

// entryKey is the sort key of an entry.
type entryKey struct {
	value string
	key   Key
}

func newIndexTree[T any]() *btree.Tree[entryKey, entry[T]] {
	tree := btree.New(func(e *entry[T], at entryKey) int {
		return cmp.Or(strings.Compare(e.value, at.value), e.version.Key.Compare(at.key))
	})
	return &tree
}

// Index returns the entries of an index, or nil if the table does not have that index.
func (t *Table[T]) Index(ix *Index[T]) *Entries[T] {
	for i := range t.indexes {
		if t.indexes[i].index == ix {
			return &t.indexes[i]
		}
	}
	return nil
}

// AddIndex adds an index over the table's versions. The function object returns the object of a version.
func (t *Table[T]) AddIndex(ix *Index[T], object func(*Version[T]) (T, bool)) {
	slot := len(t.indexes)
	t.indexes = append(t.indexes, Entries[T]{
		index: ix, values: ix.reader(object), decodes: ix.Values != nil, tree: newIndexTree[T](),
	})
	t.versions.All(func(v *Version[T]) bool {
		before := len(v.terms)
		t.describeSlot(v, slot)
		for _, term := range v.terms[before:] {
			t.indexes[slot].set(term.value, v)
		}
		return true
	})
}

// reader returns the function that finds a version's values.
func (ix *Index[T]) reader(object func(*Version[T]) (T, bool)) func(*Version[T]) []string {
	if ix.Values == nil {
		return func(v *Version[T]) []string { return valuesAt(ix.Path, v) }
	}
	return func(v *Version[T]) []string {
		if o, ok := object(v); ok {
			return ix.Values(o)
		}
		return nil
	}
}

// set puts a version under one of its values.
func (e *Entries[T]) set(value string, v *Version[T]) {
	e.tree.Set(entryKey{value, v.Key}, entry[T]{value: value, version: v})
}

// With ranges over the versions under a value, ordered by key.
func (e *Entries[T]) With(value string) iter.Seq[*Version[T]] {
	return func(yield func(*Version[T]) bool) {
		e.tree.Ascend(entryKey{value: value}, func(e entry[T]) bool {
			return e.value == value && yield(e.version)
		})
	}
}

// EachValue ranges over the different values in the index, in order.
func (e *Entries[T]) EachValue(yield func(string) bool) {
	last, any := "", false
	e.tree.All(func(e entry[T]) bool {
		if any && e.value == last {
			return true
		}
		last, any = e.value, true
		return yield(e.value)
	})
}
