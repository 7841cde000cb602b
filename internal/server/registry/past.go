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
	// Object is nil if the change deleted it, or if it cannot be read.
	Object *watchcache.Object
}

// History reads the changes of objects that the store keeps, by ascending revision.
func (s *Storage) History(ctx context.Context, q HistoryQuery) ([]Version, error) {
	kept, ok := store.PastOf(s.registry.Store)
	if !ok {
		return nil, apierrors.NewBadRequest("this server keeps no history: it needs a data directory and --history")
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
		versions[i].Change = c
		if c.Type == store.Delete || c.Forgotten || c.Unreadable != nil {
			continue
		}
		if versions[i].Object, err = s.object(store.Entry{Key: c.Key, Value: c.Value, Revision: c.Revision}); err != nil {
			versions[i].Unreadable = &store.UnreadableError{Key: c.Key, Revision: c.Revision, Err: err}
		}
	}
	return versions, nil
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
