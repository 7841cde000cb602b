package registry

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// deletesAtOnce bounds how many objects of a collection are deleted at the same time: enough to share the store's
// syncs, too few to delay other requests.
const deletesAtOnce = 16

// DeleteCollection deletes the selected objects and returns their last states. An object that has left the selection
// since it was listed, or has been replaced by another one of the same name, stays.
func (s *Storage) DeleteCollection(ctx context.Context, q ListQuery, o metav1.DeleteOptions, opt WriteOptions) (*List, error) {
	list, err := s.List(ctx, q)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for i, item := range list.Objects {
		remove := func() error {
			with := opt
			with.listed = &listed{item, q.Selection}
			if _, err := s.Delete(ctx, item.Namespace(), item.Name(), o, with); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		}
		if i > 0 {
			group.Go(remove)
		} else if err := remove(); err != nil { // an error that concerns all objects is reported once, by the first
			return nil, err
		}
	}
	return list, group.Wait()
}

// listed is an object of a collection that is to be deleted, as it was when the collection was listed.
type listed struct {
	object    *watchcache.Object
	selection Selection
}

// stays reports whether the present state of the object does not belong to the collection.
func (l *listed) stays(ctx context.Context, s *Storage, current store.Entry, o resource.Object) (bool, error) {
	if current.Revision == l.object.Revision {
		return false, nil
	}
	before, err := s.decode(ctx, store.Entry{Key: current.Key, Value: l.object.Value(), Revision: l.object.Revision})
	if err != nil || before.GetUID() != o.GetUID() {
		return true, err
	}
	now, err := s.object(current)
	if err != nil {
		return false, err
	}
	if !s.needsConversion(&l.selection) {
		return !l.selection.Matches(now), nil
	}
	selected, err := s.selectConverted(ctx, &l.selection, []*watchcache.Object{now})
	return len(selected) == 0, err
}
