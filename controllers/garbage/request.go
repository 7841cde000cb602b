package garbage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

func (c *collector) at(id identity) metadata.ResourceInterface {
	if id.kind.Namespaced {
		return c.metadata.Resource(id.kind.Resource).Namespace(id.namespace)
	}
	return c.metadata.Resource(id.kind.Resource)
}

// live asks the server for an object. One of the same name with another uid is
// not it.
func (c *collector) live(ctx context.Context, id identity) (fact, string, error) {
	o, err := c.at(id).Get(ctx, id.name, metav1.GetOptions{})
	if err == nil && o.UID != id.uid {
		err = apierrors.NewNotFound(id.kind.Resource.GroupResource(), id.name)
	}
	if err != nil {
		return fact{}, "", err
	}
	e := entryOf(o)
	return e.fact(id.kind), e.Version, nil
}

func (c *collector) delete(ctx context.Context, id identity, version string, policy metav1.DeletionPropagation) error {
	preconditions := &metav1.Preconditions{UID: &id.uid}
	if version != "" {
		preconditions.ResourceVersion = &version
	}
	err := c.at(id).Delete(ctx, id.name, metav1.DeleteOptions{Preconditions: preconditions, PropagationPolicy: &policy})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}

func (c *collector) patch(ctx context.Context, id identity, meta map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return err
	}
	_, err = c.at(id).Patch(ctx, id.name, types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch %s %s/%s: %w", id.kind.Kind, id.namespace, id.name, err)
	}
	return nil
}

// dropFinalizer removes a finalizer from the object as it is now.
func (c *collector) dropFinalizer(ctx context.Context, id identity, finalizer string) error {
	o, err := c.at(id).Get(ctx, id.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && (o.UID != id.uid || !slices.Contains(o.Finalizers, finalizer)) {
		return nil
	}
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == finalizer })
	return c.patch(ctx, id, map[string]any{"uid": o.UID, "resourceVersion": o.ResourceVersion, "finalizers": rest})
}

// dropOwner removes the references to an owner from the object as it is now.
func (c *collector) dropOwner(ctx context.Context, id identity, owner types.UID) error {
	o, err := c.at(id).Get(ctx, id.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && o.UID != id.uid {
		return nil
	}
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(o.OwnerReferences), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
	if len(rest) == len(o.OwnerReferences) {
		return nil
	}
	return c.patch(ctx, id, map[string]any{"uid": o.UID, "resourceVersion": o.ResourceVersion, "ownerReferences": rest})
}

// orphanPatience is how long caches may take to show dependents that existed
// when their owner was deleted with the orphan policy. A cache of a kind in which
// nothing happens does not move, so waiting for all of them has to have an end.
const orphanPatience = 500 * time.Millisecond

// catchUp gives all caches the time to show what was written before now.
func (c *collector) catchUp(ctx context.Context, id identity) {
	_, version, err := c.live(ctx, id)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, orphanPatience)
	defer cancel()
	var all sync.WaitGroup
	for _, cache := range c.caches() {
		all.Go(func() { _ = cache.WaitFor(ctx, version) })
	}
	all.Wait()
}

// Absences remembers owners that were seen absent, so that the dependents of
// one are not as many questions. A uid never comes back.
type absences struct {
	mu   sync.Mutex // guards seen
	seen map[absence]struct{}
}

type absence struct {
	resource        schema.GroupResource
	namespace, name string
	uid             types.UID
}

const mostAbsences = 5000

func absenceOf(id identity) absence {
	return absence{id.kind.Resource.GroupResource(), id.namespace, id.name, id.uid}
}

func (a *absences) has(id identity) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.seen[absenceOf(id)]
	return ok
}

func (a *absences) add(id identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil || len(a.seen) >= mostAbsences {
		a.seen = map[absence]struct{}{}
	}
	a.seen[absenceOf(id)] = struct{}{}
}
