package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Updater makes the new object from the current one, which it must not modify. old is nil if the object does not exist.
// It may be called several times, each time with a newer object.
type Updater func(ctx context.Context, old resource.Object) (resource.Object, error)

// UpdateOptions go with an update.
type UpdateOptions struct {
	WriteOptions
	// View is the subresource, or empty for the main resource.
	View string
	// UID is the UID that the current object must have, if not empty.
	UID types.UID
	// MayCreate allows the update to create the object.
	MayCreate bool
	// Tracked says that the updater has set the managed fields itself, as apply does.
	Tracked bool
	// Own marks a change that the server makes as part of an action, such as a binding. The kind's rules, admission,
	// the generation and managed fields do not apply to it.
	Own bool
}

// maxTries bounds the attempts of an update that meets a conflict each time.
const maxTries = 100

// Update replaces an object by the result of updater.
func (s *Storage) Update(ctx context.Context, namespace, name string, updater Updater, opt UpdateOptions) (stored *Stored, created bool, err error) {
	stored, created, err = s.update(ctx, namespace, name, updater, opt)
	if err == nil && !created && !stored.gone {
		stored, err = s.reread(ctx, stored, opt.View)
	}
	return stored, created, err
}

func (s *Storage) update(ctx context.Context, namespace, name string, updater Updater, opt UpdateOptions) (stored *Stored, created bool, err error) {
	key := s.key(namespace, name)
	current, fresh, err := s.current(ctx, key)
	for range maxTries {
		switch {
		case errors.Is(err, store.ErrNotFound):
			if opt.MayCreate {
				stored, err = s.createByUpdate(ctx, namespace, name, updater, opt)
				if apierrors.IsAlreadyExists(err) {
					current, err = s.registry.Store.Get(ctx, key, store.GetOptions{})
					fresh = true
					continue
				}
				return stored, err == nil, err
			}
			return nil, false, apierrors.NewNotFound(s.kind.GroupResource(), name)
		case err != nil:
			return nil, false, statusOf(err, s.kind.GroupResource(), name)
		}
		stored, err = s.updateOnce(ctx, current, updater, opt)
		if err == nil && stored.Entry.Revision != current.Revision {
			return stored, false, nil
		}
		var found *store.ConflictError
		switch {
		case errors.As(err, &found):
			current, fresh, err = found.Current, true, nil
		case errors.Is(err, store.ErrNotFound):
		case fresh || isStoreError(err):
			return stored, false, statusOf(err, s.kind.GroupResource(), name)
		default: // Nothing was written, because of a state from the cache.
			newer, same, getErr := s.confirm(ctx, current)
			if same {
				return stored, false, statusOf(err, s.kind.GroupResource(), name)
			}
			current, fresh, err = newer, true, getErr
		}
	}
	return nil, false, conflict(s.kind.GroupResource(), name)
}

// confirm reads an object from the store after a request has been refused, or found done already, because of a state
// from the cache. Only if same is true was that the newest state, and the answer may be given; otherwise the request is
// tried again from newer. A write needs no confirmation: the store has compared the revision.
func (s *Storage) confirm(ctx context.Context, current store.Entry) (newer store.Entry, same bool, err error) {
	newer, err = s.registry.Store.Get(ctx, current.Key, store.GetOptions{})
	return newer, err == nil && newer.Revision == current.Revision && !newer.Stale, err
}

// current returns the object's current state; from the cache if there is one, and then it may not be the newest: see
// confirm.
func (s *Storage) current(ctx context.Context, key string) (e store.Entry, fresh bool, err error) {
	if s.cached != nil {
		if o, ok := s.cached.Get(key); ok {
			if e, ok := s.recent.find(key); ok && e.Revision > o.Revision {
				return e, false, nil
			}
			return store.Entry{Key: key, Value: o.Value(), Revision: o.Revision}, false, nil
		}
	}
	e, err = s.registry.Store.Get(ctx, key, store.GetOptions{})
	return e, true, err
}

func (s *Storage) createByUpdate(ctx context.Context, namespace, name string, updater Updater, opt UpdateOptions) (*Stored, error) {
	o, err := updater(ctx, nil)
	if err != nil {
		return nil, err
	}
	o.SetResourceVersion("")
	if o.GetName() == "" {
		o.SetName(name)
	}
	w := opt.WriteOptions
	if opt.Tracked {
		w.Manager = ""
	}
	return s.Create(ctx, namespace, o, w)
}

func (s *Storage) updateOnce(ctx context.Context, current store.Entry, updater Updater, opt UpdateOptions) (*Stored, error) {
	old, err := s.decode(ctx, current)
	if err != nil {
		return nil, err
	}
	o, err := updater(ctx, old)
	if err != nil {
		return nil, statusOf(err, s.kind.GroupResource(), old.GetName())
	}
	if opt.UID != "" && opt.UID != old.GetUID() {
		return nil, preconditionFailed(s.kind.GroupResource(), old.GetName(), current.Key, fmt.Sprintf("UID in precondition: %v, UID in object meta: %v", opt.UID, old.GetUID()))
	}
	if !s.kind.Namespaced && o.GetNamespace() != "" {
		o.SetNamespace("")
	}
	if err := s.checkVersion(o, old); err != nil {
		return nil, err
	}
	change := &Change{Operation: Update, Kind: s.kind, View: opt.View, Namespace: old.GetNamespace(), Name: old.GetName(), Object: o, Old: old, WriteOptions: opt.WriteOptions}
	undo, done, err := s.runUpdateSteps(ctx, change, opt)
	if err != nil {
		return nil, err
	}
	o = change.Object
	if s.losesLastFinalizer(o, old) {
		undo()
		if err := s.mayGo(o); err != nil {
			return nil, err
		}
		return s.deleteByUpdate(ctx, current, change, opt)
	}
	stored, err := s.replace(ctx, current, o, opt)
	if err != nil {
		undoUnlessStored(undo, err)
		return nil, err
	}
	done()
	return stored, nil
}

// checkVersion refuses an object that was made from an older state than the current one.
func (s *Storage) checkVersion(o, old resource.Object) error {
	gr := s.kind.GroupResource()
	switch v := o.GetResourceVersion(); v {
	case "", "0":
		if !s.kind.UnconditionalUpdate {
			return apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, old.GetName(), field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
		}
		o.SetResourceVersion(old.GetResourceVersion())
	default:
		if _, err := store.ParseRevision(v); err != nil {
			return apierrors.NewInvalid(s.kind.GroupVersionKind().GroupKind(), old.GetName(), field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), v, err.Error())})
		}
		if v != old.GetResourceVersion() {
			return conflict(gr, old.GetName())
		}
	}
	return nil
}

// runUpdateSteps runs every step for a changed object. The caller must call undo or done for the values that it
// allocated.
func (s *Storage) runUpdateSteps(ctx context.Context, c *Change, opt UpdateOptions) (undo, done func(), err error) {
	o, old, rules := c.Object, c.Old, s.rules(opt.View)
	carryMeta(o, old)
	if opt.Own {
		return nothing, nothing, nil
	}
	if !opt.Tracked {
		if err := s.track(opt.WriteOptions, opt.View, old, o); err != nil {
			return nil, nil, err
		}
	}
	if err := s.mutateUpdate(ctx, c); err != nil {
		return nil, nil, err
	}
	o = c.Object
	rules.PrepareUpdate(ctx, o, old)
	undo, done = nothing, nothing
	if opt.View == "" {
		if undo, done, err = s.allocate(ctx, o, old, opt.DryRun); err != nil {
			return nil, nil, err
		}
	}
	if err := s.check(ctx, c, opt); err != nil {
		undo()
		return nil, nil, err
	}
	return undo, done, nil
}

// mutateUpdate runs the mutating admission steps. If a step replaces the object, the new one must have the same
// resource version.
func (s *Storage) mutateUpdate(ctx context.Context, c *Change) error {
	given := c.Object
	if err := s.registry.mutate(ctx, c); err != nil || c.Object == given {
		return err
	}
	carryMeta(c.Object, c.Old)
	return s.checkVersion(c.Object, c.Old)
}

func (s *Storage) check(ctx context.Context, c *Change, opt UpdateOptions) error {
	o, old, rules := c.Object, c.Old, s.rules(opt.View)
	if s.kind.Generation && opt.View != "status" && s.kind.Changed(o, old) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
	errs := append(s.checkMetaUpdate(o, old), s.registry.check(ctx, c)...)
	if errs = append(errs, rules.ValidateUpdate(ctx, o, old)...); len(errs) > 0 {
		return apierrors.NewInvalid(s.groupKind(), o.GetName(), errs)
	}
	opt.warn(rules.Warnings(ctx, o, old))
	return s.registry.validate(ctx, c)
}

func (s *Storage) rules(view string) *resource.RuleSet {
	if r, ok := s.kind.Views[view]; ok {
		return r
	}
	return s.kind.Main
}

// carryMeta copies the metadata that an update cannot change.
func carryMeta(o, old resource.Object) {
	o.SetGeneration(old.GetGeneration())
	o.SetSelfLink("")
	if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	if o.GetDeletionTimestamp() == nil {
		o.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// losesLastFinalizer reports whether the update removes the last finalizer of an object that is being deleted.
func (s *Storage) losesLastFinalizer(o, old resource.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 || s.kind.Held(o) {
		return false
	}
	grace := o.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

func (s *Storage) deleteByUpdate(ctx context.Context, current store.Entry, c *Change, opt UpdateOptions) (*Stored, error) {
	o := c.Object
	if opt.DryRun {
		return &Stored{Object: o, Entry: current, gone: true}, nil
	}
	rev, err := s.registry.Store.Delete(ctx, current.Key, current.Revision)
	if err != nil {
		return nil, err
	}
	s.note(rev)
	s.release(ctx, c.Old)
	return &Stored{Object: o, Entry: store.Entry{Key: current.Key, Value: current.Value, Revision: rev}, gone: true}, nil
}

func (s *Storage) release(ctx context.Context, o resource.Object) {
	if s.registry.Allocate != nil {
		s.registry.Allocate.Release(ctx, s.kind, o)
	}
}

// replace writes the object, unless it equals what is stored.
func (s *Storage) replace(ctx context.Context, current store.Entry, o resource.Object, opt UpdateOptions) (*Stored, error) {
	value, err := s.kind.Encode(ctx, o)
	if err != nil {
		return nil, codecError("encode "+current.Key, err)
	}
	if opt.DryRun || bytes.Equal(value, current.Value) && !current.Stale {
		o.SetResourceVersion(current.Revision.String())
		return &Stored{Object: o, Entry: store.Entry{Key: current.Key, Value: value, Revision: current.Revision}}, nil
	}
	rev, err := s.registry.Store.Update(ctx, current.Key, value, current.Revision, s.kind.TTL)
	if err != nil {
		return nil, err
	}
	s.note(rev)
	o.SetResourceVersion(rev.String())
	e := store.Entry{Key: current.Key, Value: value, Revision: rev}
	s.recent.keep(e)
	return &Stored{Object: o, Entry: e}, nil
}
