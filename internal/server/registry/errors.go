package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// statusOf converts errors of the store or the cache to API errors.
func statusOf(err error, gr schema.GroupResource, name string) error {
	var status apierrors.APIStatus
	var unreadable *store.UnreadableError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status):
		return err
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(gr, name)
	case errors.As(err, &unreadable):
		return corrupt(unreadable.Key, unreadable)
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(gr, name)
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrCondition):
		return conflict(gr, name)
	case errors.Is(err, store.ErrCompacted), errors.Is(err, watchcache.ErrExpired):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case errors.Is(err, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, store.ErrNoSpace):
		return unavailable(http.StatusInsufficientStorage, "the store is out of space: free some, writes go on by themselves")
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("the store did not answer in time", 1)
	case errors.Is(err, context.Canceled):
		return unavailable(499, "the caller went away")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed), errors.Is(err, watchcache.ErrNotReady), errors.Is(err, watchcache.ErrReplaced):
		return unavailable(http.StatusServiceUnavailable, err.Error())
	}
	return apierrors.NewInternalError(err)
}

// corrupt returns the error for an object that is stored and cannot be read.
func corrupt(key string, err error) error {
	return apierrors.NewInternalError(fmt.Errorf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %w", key, err))
}

// isStoreError reports whether an error comes from the store and not from a refusal. Then it is unknown whether the
// write took effect: a second try might find the result of the first, and call that a conflict.
func isStoreError(err error) bool {
	var refusal apierrors.APIStatus
	return err != nil && !errors.As(err, &refusal)
}

// isLost reports whether an error of a write leaves open whether the write took effect: the store did not answer, or
// not in time. Everything else is an answer.
func isLost(err error) bool {
	if !isStoreError(err) {
		return false
	}
	for _, answer := range []error{
		store.ErrExists, store.ErrNotFound, store.ErrConflict, store.ErrCondition, store.ErrNoSpace, store.ErrTooLarge, store.ErrUnreadable,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

func unavailable(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReasonServiceUnavailable, Message: message,
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
	}}
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

func conflict(gr schema.GroupResource, name string) error {
	return apierrors.NewConflict(gr, name, errModified)
}

// CheckPreconditions compares the preconditions of a delete with an object of the kind.
func CheckPreconditions(kind *resource.Kind, p *metav1.Preconditions, o resource.Object) error {
	if p == nil {
		return nil
	}
	named := schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
	if p.UID != nil && *p.UID != o.GetUID() {
		return apierrors.NewConflict(named, o.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, o.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(named, o.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, o.GetResourceVersion()))
	}
	return nil
}

func preconditionFailed(gr schema.GroupResource, name, key, what string) error {
	return apierrors.NewConflict(gr, name,
		fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s", key, what))
}
