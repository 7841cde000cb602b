package registry

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Freshness says how new the state of a read must be.
type Freshness struct {
	// Revision is the revision that the request names. Zero with Any is "0"; zero without Any is the newest.
	Revision store.Revision
	Any      bool
	// Exact asks for the state right after Revision, not a later one.
	Exact bool
	// Stored reads the newest state from the store itself, however far the cache is behind.
	Stored bool
}

// futureWait is how long a read waits for a revision that the cache has not reached.
const futureWait = 3 * time.Second

// Get reads one object.
func (s *Storage) Get(ctx context.Context, namespace, name string, f Freshness) (*watchcache.Object, error) {
	key := s.key(namespace, name)
	if s.cached == nil || f.Stored {
		return s.getStored(ctx, key, name, f)
	}
	switch err := s.await(ctx, f); {
	case errors.Is(err, errLogStalled):
		return s.getStored(ctx, key, name, f)
	case err != nil:
		return nil, err
	}
	o, ok := s.cached.Get(key)
	if !ok {
		if err := s.cached.Unreadable(key); err != nil {
			return nil, statusOf(err, s.kind.GroupResource(), name)
		}
		return nil, apierrors.NewNotFound(s.kind.GroupResource(), name)
	}
	return o, nil
}

func (s *Storage) getStored(ctx context.Context, key, name string, f Freshness) (*watchcache.Object, error) {
	e, err := s.registry.Store.Get(ctx, key, store.GetOptions{Stale: f.Any})
	if err != nil {
		return nil, statusOf(err, s.kind.GroupResource(), name)
	}
	o, err := s.object(e)
	if err != nil {
		return nil, statusOf(&store.UnreadableError{Key: key, Revision: e.Revision, Undecodable: true, Err: err}, s.kind.GroupResource(), name)
	}
	return o, nil
}

// object converts an entry that does not come from the cache.
func (s *Storage) object(e store.Entry) (*watchcache.Object, error) {
	return watchcache.NewObject(s.cacheOptions(), e)
}

// await waits until the cache is new enough for a read.
func (s *Storage) await(ctx context.Context, f Freshness) error {
	if !s.cached.Ready() {
		ready, cancel := context.WithTimeout(ctx, futureWait)
		defer cancel()
		if err := s.cached.WaitReady(ready); err != nil {
			return statusOf(notReady(err), s.kind.GroupResource(), "")
		}
	}
	switch {
	case f.Any:
		return nil
	case f.Revision == 0:
		return s.awaitNewest(ctx)
	}
	return s.awaitRevision(ctx, f.Revision)
}

// errLogStalled says that the cache does not catch up with the store, so that the store has to answer the read.
var errLogStalled = errors.New("the watch cache does not keep up with the store")

// stalledWait is how long a read waits if the cache has not moved since an earlier read waited without success.
const stalledWait = 50 * time.Millisecond

// awaitNewest waits until the cache has reached the store's current revision, for a bounded time.
func (s *Storage) awaitNewest(ctx context.Context) error {
	r := s.registry
	rev, err := r.Cache.Newest(ctx)
	if err != nil {
		return statusOf(err, s.kind.GroupResource(), "")
	}
	now := r.Cache.Revision()
	if now >= rev {
		return nil
	}
	limit := futureWait
	if r.stalledAt.Load() == int64(now) {
		limit = stalledWait
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = r.Cache.WaitFor(wait, rev)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		r.stalledAt.Store(int64(r.Cache.Revision()))
		return errLogStalled
	}
	return statusOf(err, s.kind.GroupResource(), "")
}

func notReady(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return watchcache.ErrNotReady
	}
	return err
}

func (s *Storage) awaitRevision(ctx context.Context, rev store.Revision) error {
	if s.registry.Cache.Revision() >= rev {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, futureWait)
	defer cancel()
	err := s.registry.Cache.WaitFor(wait, rev)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return tooLarge(rev, s.registry.Cache.Revision())
	}
	return statusOf(err, s.kind.GroupResource(), "")
}

func tooLarge(wanted, current store.Revision) error {
	err := apierrors.NewTimeoutError("Too large resource version: "+wanted.String()+", current: "+current.String(), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	err.ErrStatus.Code = http.StatusGatewayTimeout
	return err
}

// ListQuery says what to list.
type ListQuery struct {
	Selection
	Freshness
	Limit    int
	Continue string
	// Names are those of the objects that are shown, of a kind without namespaces; nil shows all.
	Names *Names
}

// List is one page of objects.
type List struct {
	Revision store.Revision
	// Objects shares the cache's memory; do not modify it.
	Objects []*watchcache.Object
	// Continue and Remaining are set if more objects follow. Remaining is -1 if it is unknown.
	Continue  string
	Remaining int64
}

// List reads the selected objects, by ascending key.
func (s *Storage) List(ctx context.Context, q ListQuery) (*List, error) {
	prefix, after := q.prefix(s), ""
	if q.Continue != "" {
		var err error
		if q.Revision, after, err = decodeContinuation(q.Continue, prefix); err != nil {
			return nil, err
		}
		q.Exact, q.Any = true, false
		if q.Revision == anyRevision {
			q.Freshness = Freshness{}
		}
	}
	view, err := s.view(ctx, q.Freshness, prefix, after, q.Limit)
	if err != nil {
		if q.Continue != "" && apierrors.IsResourceExpired(err) {
			return nil, expiredContinuation(prefix, after)
		}
		return nil, err
	}
	list, err := s.page(ctx, view, q, prefix, after)
	if err != nil && q.Continue != "" && apierrors.IsResourceExpired(err) {
		return nil, expiredContinuation(prefix, after)
	}
	return list, err
}

// Empty reports whether the cache holds no object. Unlike a list it costs nothing.
func (s *Storage) Empty() bool {
	return s.cached != nil && s.cached.Ready() && s.cached.Snapshot().Len() == 0
}

// Size returns how many objects the cache holds, and how many watches see every change of the kind. Both are zero
// without a cache.
func (s *Storage) Size() (objects, watched int) {
	if s.cached == nil || !s.cached.Ready() {
		return 0, 0
	}
	return s.cached.Snapshot().Len(), s.cached.Watched()
}

// view is a state to read from: a snapshot of the cache, or of the store.
type view interface {
	Revision() store.Revision
	Get(key string) (*watchcache.Object, bool)
	Range(prefix, after string) iter.Seq[*watchcache.Object]
	CountRange(prefix, after string) int
}

// view returns a view of the keys of a prefix after a key.
func (s *Storage) view(ctx context.Context, f Freshness, prefix, after string, limit int) (view, error) {
	if s.cached == nil || f.Stored {
		return s.storedView(ctx, f, prefix, after, limit)
	}
	switch err := s.await(ctx, f); {
	case errors.Is(err, errLogStalled):
		return s.storedView(ctx, f, prefix, after, limit)
	case err != nil:
		return nil, err
	}
	if !f.Exact {
		return s.cached.Snapshot(), nil
	}
	snapshot, err := s.cached.SnapshotAt(f.Revision)
	if errors.Is(err, watchcache.ErrExpired) {
		return s.storedView(ctx, f, prefix, after, limit)
	}
	return snapshot, statusOf(err, s.kind.GroupResource(), "")
}

// page selects the objects of a page.
func (s *Storage) page(ctx context.Context, v view, q ListQuery, prefix, after string) (*List, error) {
	out := &List{Revision: v.Revision()}
	if q.never {
		return out, nil
	}
	if q.Names != nil && !q.Names.All {
		out.Objects = s.named(v, &q)
		return out, failed(v)
	}
	convert := s.needsConversion(&q.Selection)
	if convert {
		v = &convertedView{view: v, ctx: ctx, storage: s, selection: q.Selection, limit: q.Limit}
	}
	if q.Name != "" && (q.Namespace != "" || !s.kind.Namespaced) {
		if o, ok := v.Get(s.key(q.Namespace, q.Name)); ok && (convert || q.Matches(o)) {
			out.Objects = []*watchcache.Object{o}
		}
		return out, failed(v)
	}
	all := q.Everything()
	if all && q.Limit == 0 {
		out.Objects = make([]*watchcache.Object, 0, v.CountRange(prefix, after))
	}
	for o := range v.Range(prefix, after) {
		if !all && !convert && !q.Matches(o) {
			continue
		}
		if q.Limit > 0 && len(out.Objects) == q.Limit {
			last := out.Objects[len(out.Objects)-1].Key
			out.Continue, out.Remaining = encodeContinuation(v.Revision(), prefix, last), -1
			if all && !q.byField {
				out.Remaining = int64(v.CountRange(prefix, last))
			}
			return out, nil
		}
		out.Objects = append(out.Objects, o)
	}
	return out, failed(v)
}

// named returns the selected objects among those with certain names.
func (s *Storage) named(v view, q *ListQuery) (found []*watchcache.Object) {
	for _, name := range q.Names.Sorted {
		if q.Name != "" && q.Name != name {
			continue
		}
		if o, ok := v.Get(s.key("", name)); ok && q.Matches(o) {
			found = append(found, o)
		}
	}
	return found
}

// failed returns the error that ended a view's Range early, or nil.
func failed(v view) error {
	switch v := v.(type) {
	case *storedView:
		return v.err
	case *convertedView:
		return cmp.Or(v.err, failed(v.view))
	}
	return nil
}

func expiredContinuation(prefix, after string) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	err.ErrStatus.ListMeta.Continue = encodeContinuation(anyRevision, prefix, after)
	return err
}
