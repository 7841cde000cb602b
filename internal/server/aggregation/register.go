package aggregation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/sleep"
)

// managed is the label of APIServices that the server looks after: since its start, or always.
const (
	managed  = "kube-aggregator.kubernetes.io/automanaged"
	onStart  = "onstart"
	always   = "true"
	ownGroup = "apiregistration.k8s.io"
)

// Register makes APIServices for all that is served here. What Kubernetes itself serves is set right once, at the
// start, and what is not served any more is deleted then; those of custom resources follow the catalogue as long as
// KeepRegistered runs. A backend's is made if there is none, and then left alone, so that somebody may let another
// server take its place.
func (a *Aggregator) Register(ctx context.Context) error {
	storage, err := a.storage()
	if err != nil {
		return err
	}
	list, err := storage.List(ctx, registry.ListQuery{})
	if err != nil {
		return err
	}
	all, wanted := []func() error{}, map[string]bool{}
	for gv, custom := range a.served() {
		how := onStart
		if custom {
			how = always
		}
		o := local(gv, resource.PriorityOf(gv), how)
		wanted[o.Name] = true
		all = append(all, func() error { return a.ensure(ctx, storage, o, true) })
	}
	all = append(all, func() error {
		present := map[string]registered{}
		read(ctx, storage, list, present)
		return a.deleteLeftOver(ctx, storage, present, onStart, wanted)
	})
	for gv, b := range a.o.Backends {
		all = append(all, func() error {
			return errors.Join(a.learnBackend(ctx, gv, b), a.ensure(ctx, storage, local(gv, backendPriority(b), ""), false))
		})
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for i, one := range all {
		wg.Go(func() { errs[i] = one() }) // they share the store's syncs
	}
	wg.Wait()
	return errors.Join(errs...)
}

// served are the group versions of the catalogue, and whether they are of custom resources alone.
func (a *Aggregator) served() map[schema.GroupVersion]bool {
	all := map[schema.GroupVersion]bool{}
	for _, k := range a.o.Registry.Catalogue.Kinds() {
		for _, f := range k.Served() {
			if f.Group != ownGroup {
				gv := f.GroupVersion()
				custom, seen := all[gv]
				all[gv] = k.Custom && (custom || !seen)
			}
		}
	}
	return all
}

func local(gv schema.GroupVersion, p resource.Priority, how string) *v1.APIService {
	s := &v1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec:       v1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version},
	}
	if how != "" {
		s.Labels = map[string]string{managed: how}
	}
	return s
}

// ensure makes an APIService, or sets right one that the server looks after.
func (a *Aggregator) ensure(ctx context.Context, s *registry.Storage, want *v1.APIService, renew bool) error {
	write := registry.WriteOptions{Manager: manager}
	o, err := s.Get(ctx, "", want.Name, registry.Freshness{Any: true})
	if apierrors.IsNotFound(err) {
		if _, err = s.Create(ctx, "", want.DeepCopy(), write); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create API service %s: %w", want.Name, err)
		}
		return nil
	}
	if err != nil || !renew {
		return err
	}
	present, err := decode[*v1.APIService](ctx, s.Kind(), o)
	if err != nil || present.Labels[managed] == "" || sameSpec(&present.Spec, &want.Spec) {
		return err
	}
	_, _, err = s.Update(ctx, "", want.Name, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*v1.APIService)
		o.Spec = want.Spec
		return o, nil
	}, registry.UpdateOptions{WriteOptions: write})
	return err
}

func sameSpec(a, b *v1.APIServiceSpec) bool {
	return a.Service == nil && b.Service == nil && a.Group == b.Group && a.Version == b.Version &&
		a.GroupPriorityMinimum == b.GroupPriorityMinimum && a.VersionPriority == b.VersionPriority
}

// KeepRegistered has an APIService for each group version of custom resources, until the context ends.
func (a *Aggregator) KeepRegistered(ctx context.Context) error {
	storage, err := a.storage()
	if err != nil {
		return err
	}
	seen := map[string]registered{}
	for ctx.Err() == nil {
		wake := a.o.Registry.Catalogue.Changed()
		if err := a.registerCustom(ctx, storage, seen); err != nil && ctx.Err() == nil {
			a.log.Warn("API services of custom resources could not be kept", "error", err)
			sleep.For(ctx, retryAfter)
			continue
		}
		select {
		case <-wake:
		case <-a.changed:
		case <-ctx.Done():
		}
		sleep.For(ctx, gather)
	}
	return ctx.Err()
}

// gather is how long a change waits for others. Definitions come in dozens, each change has all of them looked at, and
// nobody waits for an APIService of custom resources, which are served without it.
const gather = 100 * time.Millisecond

// registered is what an APIService says that matters here. It is kept, because thousands of them change one at a time.
type registered struct {
	revision store.Revision
	managed  string
	uid      types.UID
	spec     v1.APIServiceSpec
}

// read updates what is known of the listed APIServices.
func read(ctx context.Context, s *registry.Storage, list *registry.List, known map[string]registered) {
	there := make(map[string]bool, len(list.Objects))
	for _, o := range list.Objects {
		name := o.Name()
		if there[name] = true; known[name].revision == o.Revision {
			continue
		}
		present, err := decode[*v1.APIService](ctx, s.Kind(), o)
		if err != nil {
			delete(known, name)
			continue
		}
		known[name] = registered{o.Revision, present.Labels[managed], present.UID, present.Spec}
	}
	maps.DeleteFunc(known, func(name string, _ registered) bool { return !there[name] })
}

// registerCustom makes what is missing, and deletes what is left over. What is left over is known only after the newest
// definitions have been read: another server may have made an APIService for one that this server does not know yet.
func (a *Aggregator) registerCustom(ctx context.Context, s *registry.Storage, seen map[string]registered) error {
	list, err := s.List(ctx, registry.ListQuery{})
	if err != nil {
		return err
	}
	if a.o.CatchUp != nil {
		if err := a.o.CatchUp(ctx); err != nil {
			return err
		}
	}
	read(ctx, s, list, seen)
	wanted := map[string]bool{}
	for gv, custom := range a.served() {
		if !custom {
			continue
		}
		o := local(gv, resource.PriorityOf(gv), always)
		wanted[o.Name] = true
		if present, ok := seen[o.Name]; ok && (present.managed == "" || sameSpec(&present.spec, &o.Spec)) {
			continue
		}
		if err := a.ensure(ctx, s, o, true); err != nil {
			return err
		}
	}
	return a.deleteLeftOver(ctx, s, seen, always, wanted)
}

// deleteLeftOver deletes those APIServices that the server looks after in a certain way and does not want any more.
func (a *Aggregator) deleteLeftOver(ctx context.Context, s *registry.Storage, all map[string]registered, how string, wanted map[string]bool) error {
	unknown := a.unknownGroups()
	for name, present := range all {
		if present.managed != how || wanted[name] || unknown[present.spec.Group] {
			continue
		}
		if _, err := s.Delete(ctx, "", name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(present.uid))}, registry.WriteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete API service %s: %w", name, err)
		}
	}
	return nil
}

// unknownGroups are those with a definition that cannot be read: its versions are not known.
func (a *Aggregator) unknownGroups() map[string]bool {
	if a.o.Unreadable == nil {
		return nil
	}
	all := map[string]bool{}
	for name := range a.o.Unreadable() {
		_, group, _ := strings.Cut(name, ".")
		all[group] = true
	}
	return all
}
