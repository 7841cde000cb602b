package registry

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// HistoryQuery says which changes of objects to read.
type HistoryQuery struct {
	// Namespace and Name select objects; empty selects all.
	Namespace, Name string
	// After and Before bound the revisions; neither is included, and zero is no bound.
	After, Before store.Revision
	// Limit is the maximum number of changes: the newest are returned.
	Limit int
}

// Version is an object as a change left it.
type Version struct {
	store.Change
	// Storage is that of the object's kind; nil if there is none.
	Storage *Storage
	// Object is nil if the change deleted it, or if it cannot be read.
	Object *watchcache.Object
}

// Read reads the object.
func (v *Version) Read() {
	s := v.Storage
	if s == nil || v.Type == store.Delete || v.Forgotten || v.Unreadable != nil {
		return
	}
	var err error
	if v.Object, err = s.object(store.Entry{Key: v.Key, Value: v.Value, Revision: v.Revision}); err != nil {
		v.Unreadable = &store.UnreadableError{Key: v.Key, Revision: v.Revision, Err: err}
	}
}

func noHistory() error {
	return apierrors.NewBadRequest("this server keeps no history: it needs a data directory and --history")
}

// History reads the changes of objects that the store keeps, by ascending revision.
func (s *Storage) History(ctx context.Context, q HistoryQuery) ([]Version, error) {
	kept, ok := store.PastOf(s.registry.Store)
	if !ok {
		return nil, noHistory()
	}
	if q.Before == 1 {
		return nil, nil // before the first change is none
	}
	all, err := kept.Changes(ctx, store.ChangeQuery{
		Key: s.historyPrefix(q), Below: q.Name == "", After: q.After, Until: max(q.Before-1, 0), Limit: q.Limit,
	})
	if errors.Is(err, store.ErrClosed) {
		return nil, statusOf(err, s.kind.GroupResource(), q.Name)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	versions := make([]Version, len(all))
	for i, c := range all {
		versions[i] = Version{Change: c, Storage: s}
		versions[i].Read()
	}
	return versions, nil
}

// Trail reads the changes of objects of all kinds after a revision, as the store made them: at least one if there is
// one, and at most limit. Their objects are not read yet. A change of something that is no object of a kind has no Storage.
func (r *Registry) Trail(ctx context.Context, after store.Revision, limit int) ([]Version, error) {
	kept, ok := store.PastOf(r.Store)
	if !ok {
		return nil, noHistory()
	}
	all, err := kept.Next(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	versions := make([]Version, len(all))
	for i, c := range all {
		versions[i] = Version{Change: c, Storage: r.storageOf(c.Key)}
	}
	return versions, nil
}

// storageOf returns the storage of the objects among which a key is, or nil.
func (r *Registry) storageOf(key string) *Storage {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for end := len(Root); ; {
		n := strings.IndexByte(key[min(end, len(key)):], '/')
		if n < 0 {
			return nil
		}
		end += n + 1
		if o, ok := r.below[key[:end]]; ok && len(o.storages) > 0 {
			return o.storages[0]
		}
	}
}

// historyPrefix returns what the keys of the objects begin with that a query selects, or the key of the only one.
func (s *Storage) historyPrefix(q HistoryQuery) string {
	switch {
	case q.Name != "":
		return s.key(q.Namespace, q.Name)
	case q.Namespace != "":
		return s.prefix + q.Namespace + "/"
	}
	return s.prefix
}

// NamesOf returns the namespace and the name of the object with a key.
func (s *Storage) NamesOf(key string) (namespace, name string) {
	name = strings.TrimPrefix(key, s.prefix)
	if s.kind.Namespaced {
		namespace, name, _ = strings.Cut(name, "/")
	}
	return namespace, name
}
