package garbage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/millrace/millrace/internal/controllers/internal/kinds"
)

func (c *collector) at(id identity) metadata.ResourceInterface {
	if id.kind.Namespaced {
		return c.metadata.Resource(id.kind.Resource).Namespace(id.namespace)
	}
	return c.metadata.Resource(id.kind.Resource)
}

// live reads an object from the server. An object of the same name with another UID counts as not found.
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

// dropFinalizer removes a finalizer from the object's current version.
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

// dropOwner removes the references to an owner from the object's current version.
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

// pageSize is how many objects are listed at a time.
const pageSize = 500

// releaseDependents removes the references to an owner from all objects of a kind.
func (c *collector) releaseDependents(ctx context.Context, kind *kinds.Kind, owner identity) error {
	if owner.namespace != "" && !kind.Namespaced {
		return nil // it cannot own them
	}
	objects := c.metadata.Resource(kind.Resource).Namespace(owner.namespace)
	page := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := objects.List(ctx, page)
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %s to find the dependents of %s: %w", kind.Resource.GroupResource(), owner.name, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if !slices.ContainsFunc(o.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == owner.uid }) {
				continue
			}
			if err := c.dropOwner(ctx, identity{kind: kind, namespace: o.Namespace, name: o.Name, uid: o.UID}, owner.uid); err != nil {
				return err
			}
		}
		if page.Continue = list.Continue; page.Continue == "" {
			return nil
		}
	}
}

// absences remembers owners that were found absent, so that each is verified only once. A UID is never used again.
type absences struct {
	mu   sync.Mutex // guards seen
	seen map[absence]struct{}
}

type absence struct {
	resource        schema.GroupResource
	namespace, name string
	uid             types.UID
}

const maxAbsences = 5000

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
	if a.seen == nil || len(a.seen) >= maxAbsences {
		a.seen = map[absence]struct{}{}
	}
	a.seen[absenceOf(id)] = struct{}{}
}
