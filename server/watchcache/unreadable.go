package watchcache

import "github.com/millrace/millrace/server/store"

// unreadable are the keys of a kind whose values cannot be read, with the reason. Lists and watches leave them out, as if they were deleted: one
// value that cannot be decrypted must not end the log of all others.
type unreadable map[string]*store.UnreadableError

// note remembers what a change has made of a key; nil means that it can be read, or is gone.
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

// Unreadable tells why a key that Get does not find cannot be read; nil if it does not exist.
func (k *Kind) Unreadable(key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err, ok := k.unreadable[key]; ok {
		return err
	}
	return nil
}
