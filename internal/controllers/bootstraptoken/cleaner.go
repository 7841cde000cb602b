package bootstraptoken

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// Cleaner deletes expired tokens.
var Cleaner = loop.Entry{
	Name: cleanerName, Aliases: []string{"tokencleaner"}, OffByDefault: true,
	New: func(c *loop.Clients) (loop.Runner, error) {
		cache := tokens(c)
		sync := func(ctx context.Context, key loop.Key) (loop.Result, error) {
			token, ok := cache.Lookup(key)
			if !ok || token.DeletionTimestamp != nil {
				return loop.Result{}, nil
			}
			at, ends := expiry(token)
			if left := at.Sub(c.Now()); !ends || left > 0 {
				return loop.Result{After: max(left, 0)}, nil
			}
			// Its expiry may have been extended, so the version is a precondition: the change will wake the loop.
			err := c.Kube.CoreV1().Secrets(token.Namespace).Delete(ctx, token.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &token.UID, ResourceVersion: &token.ResourceVersion},
			})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return loop.Result{}, fmt.Errorf("delete the expired token %s: %w", token.Name, err)
			}
			return loop.Result{}, nil
		}
		return &loop.Loop{Name: cleanerName, Clients: c, Sync: sync, Watches: []loop.Watch{loop.Self(cache)}}, nil
	},
}
