package loop

import (
	"context"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
)

// Writes lets a loop read its own writes. It remembers for each key what the loop has written while it synced that key,
// and [Writes.Settled] delays the next Sync until the caches show it. So a loop never creates an object twice because
// its cache does not show it yet. The zero value is ready for use.
type Writes struct {
	mu      sync.Mutex // guards pending
	pending map[Key]*unsettled
}

// unsettled has the writes for one key that caches may not show yet.
type unsettled struct {
	since    time.Time
	versions map[Cache]uint64
	removed  []func() bool // each reports whether a cache shows the deletion
}

const (
	settleWait  = time.Second     // how long Settled waits for a cache
	settleLimit = 5 * time.Minute // after that a write is no longer waited for
)

// Wrote notes that an object was created or changed for key. cache is where the write will be seen, and resourceVersion
// is from the server's answer. A version that is not a number, as from client-go's fake clients, cannot be waited for
// and is ignored.
func (w *Writes) Wrote(key Key, cache Cache, resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || version == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.unsettledLocked(key)
	u.versions[cache] = max(u.versions[cache], version)
}

// Removed notes that an object was deleted for key. It is settled when the cache no longer shows that object, or shows
// it with a deletion timestamp.
func Removed[T metav1.Object](w *Writes, key Key, cache *informer.Shared[T], object T) {
	name, uid := informer.KeyOf(object), object.GetUID()
	w.removed(key, func() bool {
		current, ok := cache.Lookup(name)
		return !ok || current.GetUID() != uid || current.GetDeletionTimestamp() != nil
	})
}

func (w *Writes) removed(key Key, shown func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.unsettledLocked(key)
	u.removed = append(u.removed, shown)
}

// Forget drops the writes of key.
func (w *Writes) Forget(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, key)
}

// Settled returns nil when the caches show everything that was written for key. It waits a moment for them. If that is
// not enough it returns [ErrBehind], which Sync must return. Writes that are noted during the call are not waited for.
func (w *Writes) Settled(ctx context.Context, key Key) error {
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
func (w *Writes) take(key Key) *unsettled {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.pending[key]
	delete(w.pending, key)
	return u
}

// giveBack adds writes that are not settled to those that came in meanwhile.
func (w *Writes) giveBack(key Key, u *unsettled) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.unsettledLocked(key)
	now.since = u.since
	for cache, version := range u.versions {
		now.versions[cache] = max(now.versions[cache], version)
	}
	now.removed = append(now.removed, u.removed...)
}

func (w *Writes) unsettledLocked(key Key) *unsettled {
	if w.pending == nil {
		w.pending = map[Key]*unsettled{}
	}
	u := w.pending[key]
	if u == nil {
		u = &unsettled{since: time.Now(), versions: map[Cache]uint64{}}
		w.pending[key] = u
	}
	return u
}
