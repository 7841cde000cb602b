package wire

import (
	"context"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// Prepare converts objects together, if their conversion needs requests to a webhook. Call it with as many objects as
// possible before asking for their forms.
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
