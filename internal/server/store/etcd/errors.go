package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/server/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	servererrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	serverlease "go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
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

// errors that are already those of package store, because the engine knew the reason better than etcd
var known = []error{store.ErrNoSpace, store.ErrUnavailable, store.ErrClosed, store.ErrFuture, store.ErrCompacted, store.ErrTooLarge}

func meaning(err error) error {
	for _, k := range known {
		if errors.Is(err, k) {
			return err
		}
	}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	err = rpctypes.Error(err)
	switch {
	case is(mvcc.ErrCompacted, rpctypes.ErrCompacted):
		return store.ErrCompacted
	case is(mvcc.ErrFutureRev, rpctypes.ErrFutureRev):
		return store.ErrFuture
	case is(servererrors.ErrNoSpace, rpctypes.ErrNoSpace):
		return store.ErrNoSpace
	case is(servererrors.ErrRequestTooLarge, rpctypes.ErrRequestTooLarge), largerThanMax(err):
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
	return errors.Is(err, serverlease.ErrLeaseNotFound) || errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}
