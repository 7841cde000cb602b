package registry

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deletesAtOnce bounds how many objects of a collection are deleted at the same time: enough to share the store's syncs, too few to delay other
// requests.
const deletesAtOnce = 16

// DeleteCollection deletes the selected objects and returns their last states.
func (s *Storage) DeleteCollection(ctx context.Context, q ListQuery, o metav1.DeleteOptions, opt WriteOptions) (*List, error) {
	list, err := s.List(ctx, q)
	if err != nil {
		return nil, err
	}
	opt.collection = true
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletesAtOnce)
	for i, item := range list.Objects {
		remove := func() error {
			if _, err := s.Delete(ctx, item.Namespace(), item.Name(), o, opt); err != nil && !apierrors.IsNotFound(err) {
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
