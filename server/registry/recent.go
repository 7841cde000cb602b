package registry

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/millrace/millrace/server/store"
)

// recent remembers what this server wrote last. Otherwise the next change of the same object might start from a cached state that is already
// outdated, and would learn that only from the store's conflict. It is a hint: there are few places, and keys that share one displace each other.
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
