package watchcache

import (
	"maps"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
)

// unreadable are the keys of a kind whose values cannot be read, with the reasons. Lists and watches omit them as if
// they were deleted: one value that cannot be decrypted or decoded must not stop the log for all others.
type unreadable map[string]*store.UnreadableError

// note records the result of a change for a key; nil means that the value can be read, or that the key was deleted.
func (u *unreadable) note(key string, err *store.UnreadableError) {
	switch {
	case err == nil:
		delete(*u, key)
	case *u == nil:
		*u = unreadable{key: err}
	default:
		(*u)[key] = err
	}
}

// Unreadable returns the error for a key whose value cannot be read; nil for any other key.
func (k *Kind) Unreadable(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err, ok := k.unreadable[key]; ok {
		return err
	}
	return nil
}

// AllUnreadable returns the errors of all objects that cannot be read, by their keys; nil if there are none.
func (k *Kind) AllUnreadable() map[string]*store.UnreadableError {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(map[string]*store.UnreadableError(k.unreadable))
}

// UnreadableIn reports how many objects of a namespace cannot be read.
func (k *Kind) UnreadableIn(namespace string) (n int) {
	if !k.options.Namespaced {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.unreadable {
		if strings.HasPrefix(key[len(k.options.Prefix):], namespace+"/") {
			n++
		}
	}
	return n
}
