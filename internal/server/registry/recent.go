package registry

import (
	"hash/maphash"
	"sync/atomic"
	"weak"

	"github.com/millrace/millrace/internal/server/store"
)

// recent remembers what this server wrote last. Otherwise the next change of the same object might start from a cached
// state that is already outdated, and would learn that only from the store's conflict. It is a hint: there are few
// places, keys that share one displace each other, and what is remembered keeps no memory. The cache mostly knows an
// entry long before the garbage collector takes it from here.
type recent struct {
	places [256]atomic.Pointer[weak.Pointer[store.Entry]]
}

var recentSeed = maphash.MakeSeed()

func (r *recent) place(key string) *atomic.Pointer[weak.Pointer[store.Entry]] {
	return &r.places[maphash.String(recentSeed, key)%uint64(len(r.places))]
}

func (r *recent) forget() {
	for i := range r.places {
		r.places[i].Store(nil)
	}
}

func (r *recent) keep(e store.Entry) {
	w := weak.Make(&e)
	r.place(e.Key).Store(&w)
}

func (r *recent) find(key string) (store.Entry, bool) {
	w := r.place(key).Load()
	if w == nil {
		return store.Entry{}, false
	}
	e := w.Value()
	if e == nil || e.Key != key {
		return store.Entry{}, false
	}
	return *e, true
}
