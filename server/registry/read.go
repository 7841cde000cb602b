package registry

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Freshness is what a read asks of the state that it is shown.
type Freshness struct {
	// Revision is what the caller named; zero with Any is "0", zero without is "the newest".
	Revision store.Revision
	Any      bool
	// Exact wants the state right after Revision, not a later one.
	Exact bool
}

// futureWait is how long a read waits for a revision that has not come yet.
const futureWait = 3 * time.Second

// Get reads one object.
func (s *Storage) Get(ctx context.Context, namespace, name string, f Freshness) (*watchcache.Object, error) {
	key := s.key(namespace, name)
	if s.cached == nil {
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
	return s.object(e), nil
}

// object wraps an entry that does not come from the cache.
func (s *Storage) object(e store.Entry) *watchcache.Object {
	return watchcache.NewObject(s.cacheOptions(), e)
}

// await waits until the cache may answer a read.
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

// errLogStalled says that the cache does not come as far as the store is: the read has to be answered by the store.
var errLogStalled = errors.New("the watch cache does not keep up with the store")

// stalledWait is how long a read waits for a cache that has not moved since another read waited for it in vain.
const stalledWait = 50 * time.Millisecond

// awaitNewest waits until the cache has come as far as the store is now, for a bounded time.
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

// ListQuery is what a list asks for.
type ListQuery struct {
	Selection
	Freshness
	Limit    int
	Continue string
}

// List is one page of objects.
type List struct {
	Revision store.Revision
	// Objects can be ranged over once; the slice shares the cache's memory.
	Objects []*watchcache.Object
	// Continue and Remaining are set when more follows; Remaining is -1 when it is not known.
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
	list, err := s.page(view, q, prefix, after)
	if err != nil && q.Continue != "" && apierrors.IsResourceExpired(err) {
		return nil, expiredContinuation(prefix, after)
	}
	return list, err
}

// Empty tells that the cache knows of no object. It costs nothing, unlike a list.
func (s *Storage) Empty() bool {
	return s.cached != nil && s.cached.Ready() && s.cached.Snapshot().Len() == 0
}

// Size tells how many objects the cache knows of, and how many watches see each change of one of them. Both are zero without a cache.
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

// view shows the range of a prefix after a key.
func (s *Storage) view(ctx context.Context, f Freshness, prefix, after string, limit int) (view, error) {
	if s.cached == nil {
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
func (s *Storage) page(v view, q ListQuery, prefix, after string) (*List, error) {
	out := &List{Revision: v.Revision()}
	if q.never {
		return out, nil
	}
	if q.Name != "" && (q.Namespace != "" || !s.kind.Namespaced) {
		if o, ok := v.Get(s.key(q.Namespace, q.Name)); ok && q.Matches(o) {
			out.Objects = []*watchcache.Object{o}
		}
		return out, failed(v)
	}
	all := q.Everything()
	if all && q.Limit == 0 {
		out.Objects = make([]*watchcache.Object, 0, v.CountRange(prefix, after))
	}
	for o := range v.Range(prefix, after) {
		if !all && !q.Matches(o) {
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

// failed tells why a view could not be ranged over to its end.
func failed(v view) error {
	if stored, ok := v.(*storedView); ok {
		return stored.err
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
