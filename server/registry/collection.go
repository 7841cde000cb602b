package registry

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deletesAtOnce bounds how many objects of a collection are deleted at the same time: enough to share the store's
// flushes, too few to crowd out others.
const deletesAtOnce = 16

// DeleteCollection deletes the selected objects and returns them as they were.
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
		} else if err := remove(); err != nil { // what is wrong with all of them is said of the first
			return nil, err
		}
	}
	return list, group.Wait()
}
