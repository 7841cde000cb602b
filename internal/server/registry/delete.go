package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deleted is the result of a delete.
type Deleted struct {
	Stored
	// Gone says that the object is deleted. Otherwise it waits for its grace period or its finalizers.
	Gone bool
}

// Delete deletes an object. One that has finalizers or a grace period stays, with its deletionTimestamp set.
func (s *Storage) Delete(ctx context.Context, namespace, name string, o metav1.DeleteOptions, opt WriteOptions) (*Deleted, error) {
	key := s.key(namespace, name)
	if o.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *o.IgnoreStoreReadErrorWithClusterBreakingPotential {
		return s.deleteCorrupt(ctx, key, name, opt.DryRun)
	}
	current, fresh, err := s.current(ctx, key)
	for range maxTries {
		if err != nil {
			return nil, statusOf(err, s.kind.GroupResource(), name)
		}
		out, failed := s.deleteOnce(ctx, current, o, opt)
		if failed == nil && (fresh || out.Entry.Revision != current.Revision) {
			return out, nil
		}
		var found *store.ConflictError
		switch {
		case errors.As(failed, &found):
			current, fresh = found.Current, true
		case fresh || errors.Is(failed, store.ErrNotFound) || isStoreError(failed):
			return nil, statusOf(failed, s.kind.GroupResource(), name)
		default: // Nothing was written, because of a state from the cache.
			newer, same, getErr := s.confirm(ctx, current)
			if same {
				return out, statusOf(failed, s.kind.GroupResource(), name)
			}
			current, fresh, err = newer, true, getErr
		}
	}
	return nil, conflict(s.kind.GroupResource(), name)
}

func (s *Storage) deleteOnce(ctx context.Context, current store.Entry, do metav1.DeleteOptions, opt WriteOptions) (*Deleted, error) {
	o, err := s.decode(ctx, current)
	if err != nil {
		return nil, err
	}
	if err := CheckPreconditions(s.kind, do.Preconditions, o); err != nil {
		return nil, err
	}
	if opt.listed != nil {
		if stays, err := opt.listed.stays(ctx, s, current, o); err != nil || stays {
			return nil, cmp.Or(err, error(apierrors.NewNotFound(s.kind.GroupResource(), o.GetName())))
		}
	}
	if s.gracePending(o, do) {
		return &Deleted{Stored: Stored{Object: o, Entry: current}}, nil // nothing changes, so admission is not asked
	}
	if err := s.admitDelete(ctx, o, do, opt); err != nil {
		return nil, err
	}
	stays, err := s.beginDeletion(o, do)
	if err != nil {
		return nil, err
	}
	if stays {
		stored, err := s.replace(ctx, current, o, UpdateOptions{WriteOptions: opt})
		if err != nil {
			return nil, err
		}
		return &Deleted{Stored: *stored}, nil
	}
	gone := &Deleted{Stored: Stored{Object: o, Entry: current}, Gone: true}
	if opt.DryRun {
		return gone, nil
	}
	rev, err := s.registry.Store.Delete(ctx, current.Key, current.Revision)
	if err != nil {
		return nil, err
	}
	s.note(rev)
	gone.Entry.Revision = rev
	o.SetResourceVersion(rev.String())
	s.release(ctx, o)
	return gone, nil
}

func (s *Storage) admitDelete(ctx context.Context, o resource.Object, do metav1.DeleteOptions, opt WriteOptions) error {
	if opt.Admitted {
		return nil
	}
	return s.registry.Admit(ctx, &Change{
		Operation: Delete, Kind: s.kind, Namespace: o.GetNamespace(), Name: o.GetName(), Old: o,
		Collection: opt.listed != nil, WriteOptions: opt, deleting: &do,
	})
}

// gracePending reports whether an object waits for the end of a grace period that a request does not shorten.
// Kubernetes then ignores the request's other options too.
func (s *Storage) gracePending(o resource.Object, do metav1.DeleteOptions) bool {
	before := o.GetDeletionGracePeriodSeconds()
	return s.kind.Graceful != nil && o.GetDeletionTimestamp() != nil && before != nil && *before > 0 &&
		(do.GracePeriodSeconds == nil || *do.GracePeriodSeconds >= *before)
}

// beginDeletion marks the object as being deleted and reports whether its finalizers or its grace period keep it.
func (s *Storage) beginDeletion(o resource.Object, do metav1.DeleteOptions) (stays bool, err error) {
	finalizers := s.finalizersFor(o, do)
	o.SetFinalizers(finalizers)
	seconds, graceful := int64(0), false
	if s.kind.Graceful != nil {
		seconds, graceful = s.kind.Graceful(o, do.GracePeriodSeconds)
	}
	held := len(finalizers) > 0 || s.kind.Held(o)
	switch {
	case !graceful:
		seconds = 0
	case seconds < 0: // the shortest grace period
		seconds = 1
	}
	if o.GetDeletionTimestamp() != nil {
		if len(finalizers) > 0 && !graceful && !s.kind.Held(o) && o.GetDeletionGracePeriodSeconds() == nil {
			o.SetDeletionGracePeriodSeconds(&seconds) // the first delete of a definition leaves it out
		}
		return s.shortenGrace(o, do, seconds, graceful) || held, nil
	}
	if !held && !graceful {
		return false, nil
	}
	if o.GetUID() == "" {
		return false, apierrors.NewInternalError(fmt.Errorf("%s has no uid", o.GetName()))
	}
	at := metav1.Time{Time: s.registry.Now().UTC().Truncate(timeGrain).Add(demand.Seconds(seconds))}
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&seconds)
	if s.kind.Generation && o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	if s.kind.PrepareDelete != nil {
		s.kind.PrepareDelete(o)
	}
	return held || seconds > 0, nil
}

// shortenGrace handles a second delete, which may only shorten the grace period.
func (s *Storage) shortenGrace(o resource.Object, do metav1.DeleteOptions, seconds int64, graceful bool) (stays bool) {
	before := o.GetDeletionGracePeriodSeconds()
	if before == nil || *before == 0 {
		return false
	}
	if do.GracePeriodSeconds == nil || seconds >= *before {
		return true
	}
	start := o.GetDeletionTimestamp().Add(-demand.Seconds(*before))
	at := metav1.Time{Time: start.Add(demand.Seconds(seconds))}
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&seconds)
	return graceful && seconds > 0
}

// finalizersFor adds or removes the garbage collector's finalizers as the request says.
func (s *Storage) finalizersFor(o resource.Object, do metav1.DeleteOptions) []string {
	orphan := slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
	switch {
	case do.OrphanDependents != nil: //nolint:staticcheck // the old option is still part of the API
		orphan, foreground = *do.OrphanDependents, false
	case do.PropagationPolicy != nil:
		orphan = *do.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *do.PropagationPolicy == metav1.DeletePropagationForeground
	case !orphan && !foreground:
		orphan = s.kind.OrphanByDefault
	}
	out := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	return out
}
