package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// explain translates etcd's errors into those of package store.
func (s *Store) explain(ctx context.Context, err error) error {
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	select {
	case <-s.closed:
		return store.ErrClosed
	default:
		return meaning(err)
	}
}

// errors that are already those of package store
var known = []error{store.ErrNoSpace, store.ErrUnavailable, store.ErrClosed, store.ErrFuture, store.ErrCompacted, store.ErrTooLarge}

func meaning(err error) error {
	for _, k := range known {
		if errors.Is(err, k) {
			return err
		}
	}
	err = rpctypes.Error(err)
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		return store.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		return store.ErrFuture
	case errors.Is(err, rpctypes.ErrNoSpace):
		return store.ErrNoSpace
	case errors.Is(err, rpctypes.ErrRequestTooLarge), largerThanMax(err):
		return store.ErrTooLarge
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// largerThanMax says whether gRPC refused to send a message because of its size. gRPC has no error value for that.
func largerThanMax(err error) bool {
	return code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "larger than max")
}

func code(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

func leaseGone(err error) bool {
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}
