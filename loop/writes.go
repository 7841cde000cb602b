package loop

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
)

// Wrote notes that the Sync of the context has created or changed an object: the next Sync of the same key begins when
// the cache shows it. So a loop never creates an object twice because its cache does not show it yet. resourceVersion
// is from the server's answer. A version that is not a number, as from client-go's fake clients, cannot be waited for
// and is ignored. Outside of a Sync nothing is noted.
func Wrote(ctx context.Context, cache Cache, resourceVersion string) {
	if s, ok := ctx.Value(syncingKey{}).(syncing); ok {
		s.writes.wrote(s.key, cache, resourceVersion)
	}
}

// Removed notes that the Sync of the context has deleted an object: the next Sync of the same key begins when the cache
// no longer shows that object, or shows it with a deletion timestamp. Outside of a Sync nothing is noted.
func Removed[T metav1.Object](ctx context.Context, cache *informer.Shared[T], object T) {
	s, ok := ctx.Value(syncingKey{}).(syncing)
	if !ok {
		return
	}
	name, uid := informer.KeyOf(object), object.GetUID()
	s.writes.removed(s.key, func() bool {
		current, ok := cache.Lookup(name)
		return !ok || current.GetUID() != uid || current.GetDeletionTimestamp() != nil
	})
}

// syncing is the value in a Sync's context.
type syncing struct {
	writes *writes
	key    Key
}

type syncingKey struct{}

// writes remembers for each key what a loop has written while it synced that key, and settled delays the next Sync
// until the caches show it. The zero value is ready for use.
type writes struct {
	mu      sync.Mutex // guards what follows
	pending map[Key]*unsettled
	most    int // more keys are let go of that nobody has synced for long, such as those of objects that are gone
}

// unsettled has the writes for one key that caches may not show yet.
type unsettled struct {
	since    time.Time
	versions map[Cache]uint64
	removed  []func() bool // each reports whether a cache shows the deletion
}

const (
	settleWait  = time.Second     // how long settled waits for a cache
	settleLimit = 5 * time.Minute // after that a write is no longer waited for
)

// wrote notes that an object was created or changed for key. cache is where the write will be seen.
func (w *writes) wrote(key Key, cache Cache, resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || version == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.unsettledLocked(key)
	u.versions[cache] = max(u.versions[cache], version)
}

// removed notes a deletion for key; shown reports whether a cache shows it.
func (w *writes) removed(key Key, shown func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.unsettledLocked(key)
	u.removed = append(u.removed, shown)
}

// settled returns nil when the caches show everything that was written for key. It waits a moment for them. If that is
// not enough it returns [ErrBehind]. Writes that are noted during the call are not waited for.
func (w *writes) settled(ctx context.Context, key Key) error {
	u := w.take(key)
	if u == nil || time.Since(u.since) > settleLimit {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	for cache, version := range u.versions {
		if cache.WaitFor(waiting, strconv.FormatUint(version, 10)) == nil {
			delete(u.versions, cache)
		}
	}
	still := u.removed[:0]
	for _, shown := range u.removed {
		if !shown() {
			still = append(still, shown)
		}
	}
	u.removed = still
	if len(u.versions) == 0 && len(u.removed) == 0 {
		return nil
	}
	w.giveBack(key, u)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return ErrBehind
}

// take removes the writes of key, so that the caches can be read without the lock.
func (w *writes) take(key Key) *unsettled {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.pending[key]
	delete(w.pending, key)
	return u
}

// giveBack adds writes that are not settled to those that came in meanwhile.
func (w *writes) giveBack(key Key, u *unsettled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.unsettledLocked(key)
	now.since = u.since
	for cache, version := range u.versions {
		now.versions[cache] = max(now.versions[cache], version)
	}
	now.removed = append(now.removed, u.removed...)
}

func (w *writes) unsettledLocked(key Key) *unsettled {
	if w.pending == nil {
		w.pending = map[Key]*unsettled{}
	}
	u := w.pending[key]
	if u == nil {
		w.sweepLocked()
		u = &unsettled{since: time.Now(), versions: map[Cache]uint64{}}
		w.pending[key] = u
	}
	return u
}

// sweepLocked lets go of writes that are no longer waited for. It looks at all only when they have doubled.
func (w *writes) sweepLocked() {
	if len(w.pending) < w.most {
		return
	}
	maps.DeleteFunc(w.pending, func(_ Key, u *unsettled) bool { return time.Since(u.since) > settleLimit })
	w.most = 2*len(w.pending) + 1000
}
