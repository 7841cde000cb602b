package watchcache

import (
	"strings"

	btree "github.com/millrace/millrace/internal/tree"
)

// tree is a state: objects by key. A copy costs nothing until one of the two is changed.
type tree struct{ items btree.Tree[string, item] }

// item holds the key beside the object, so that a search need not read the object.
type item struct {
	key    string
	object *Object
}

func newTree() tree {
	return tree{btree.New(func(it *item, key string) int { return strings.Compare(it.key, key) })}
}

func (t *tree) freeze() tree { return tree{t.items.Freeze()} }

func (t tree) thaw() tree { return tree{t.items.Thaw()} }

func (t tree) len() int { return t.items.Len() }

func (t tree) get(key string) *Object {
	it, _ := t.items.Get(key)
	return it.object
}

// ascend yields the objects whose keys are at or after from, until yield returns false.
func (t tree) ascend(from string, yield func(*Object) bool) {
	t.items.Ascend(from, func(it item) bool { return yield(it.object) })
}

// rank counts the keys before key.
func (t tree) rank(key string) int {
	return t.items.Before(func(it *item) bool { return it.key >= key })
}

// set puts an object under key and returns the previous one. If the key exists, its string is kept.
func (t *tree) set(key string, o *Object) (old *Object) {
	if !t.items.Change(key, func(it *item) { old, it.object = it.object, o }) {
		t.items.Set(key, item{key, o})
	}
	return old
}

// delete removes key and returns its object, or nil.
func (t *tree) delete(key string) *Object {
	old, _ := t.items.Delete(key)
	return old.object
}
