package registry

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/millrace/millrace/server/store"
)

// recent remembers what this server wrote last, so that the next change of the same object does not start from a state of
// the cache that is about to be overtaken: it would only find that out at the store and begin again. It is a hint: places
// are few, and keys that share one displace each other.
type recent struct {
	places [256]atomic.Pointer[store.Entry]
}

var recentSeed = maphash.MakeSeed()

func (r *recent) place(key string) *atomic.Pointer[store.Entry] {
	return &r.places[maphash.String(recentSeed, key)%uint64(len(r.places))]
}

func (r *recent) keep(e store.Entry) { r.place(e.Key).Store(&e) }

func (r *recent) find(key string) (store.Entry, bool) {
	e := r.place(key).Load()
	if e == nil || e.Key != key {
		return store.Entry{}, false
	}
	return *e, true
}
