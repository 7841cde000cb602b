package wire

import (
	"context"

	"github.com/millrace/millrace/internal/deflate"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// GzipJSON returns the compressed JSON form of an object.
func GzipJSON(ctx context.Context, k *resource.Kind, o *watchcache.Object) (deflate.Block, error) {
	return o.Form(k.Edition, slotGzip, func() ([]byte, error) {
		text, err := makeJSON(ctx, k, o.Value(), o.Revision)
		if err != nil {
			return nil, err
		}
		return deflate.Compress(text), nil
	})
}

// GzipDeletedJSON returns the compressed form of DeletedJSON.
func GzipDeletedJSON(ctx context.Context, k *resource.Kind, e *watchcache.Event) (deflate.Block, error) {
	return e.Form(k.Edition, slotDeletedGzip, func() ([]byte, error) {
		text, err := DeletedJSON(ctx, k, e)
		if err != nil {
			return nil, err
		}
		return deflate.Compress(text), nil
	})
}
