package wire

import (
	"context"

	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/watchcache"
)

// Prepare has the forms of objects come at little cost, where making them takes requests to somebody else. It is worth calling
// for as many objects as there are.
func Prepare(ctx context.Context, k *resource.Kind, objects []*watchcache.Object) error {
	if !resource.IsForeign(k) || len(objects) == 0 {
		return nil
	}
	stored := make([][]byte, len(objects))
	for i, o := range objects {
		stored[i] = o.Value()
	}
	return resource.Prepare(ctx, k, stored)
}
