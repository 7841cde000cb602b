package storageversionmigrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/internal/kinds"
)

// page is how many objects are listed at a time.
const page = 500

// kindOf is the resource of a migration, in the version that its group prefers, or nil if there is none.
func (r *controller) kindOf(m *migrationv1.StorageVersionMigration) (*kinds.Kind, error) {
	all, err := kinds.Discover(r.clients.Discovery)
	if err != nil {
		return nil, err
	}
	for _, k := range all.Kinds {
		if k.Resource.GroupResource() == (schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}) {
			return k, nil
		}
	}
	if all.FailedGroup(m.Spec.Resource.Group) {
		return nil, all.Failure()
	}
	return nil, nil
}

// migrate writes each object anew. What may go better later is tried again; any other refusal ends the migration.
func (r *controller) migrate(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	kind, err := r.kindOf(m)
	if err != nil {
		return err
	}
	if kind == nil {
		return r.fail(ctx, m, "resource not found")
	}
	since, err := strconv.ParseUint(m.Status.ResourceVersion, 10, 64)
	if err != nil {
		return r.fail(ctx, m, "the resource version is not a number")
	}
	objects, next := r.clients.Metadata.Resource(kind.Resource), ""
	for {
		list, err := objects.List(ctx, metav1.ListOptions{Limit: page, Continue: next})
		if err != nil {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			if written, err := strconv.ParseUint(list.Items[i].ResourceVersion, 10, 64); err == nil && written > since {
				continue // since the migration began: also by a life of this loop that ended halfway
			}
			err := r.rewrite(ctx, kind, &list.Items[i])
			if err == nil {
				continue
			}
			if passing(err) {
				return err
			}
			r.clients.Log.WarnContext(ctx, "object cannot be migrated", "migration", m.Name, "err", err)
			return r.fail(ctx, m, "migration encountered unhandled error")
		}
		if next = list.Continue; next == "" {
			return r.set(ctx, m, migrationv1.MigrationSucceeded, metav1.ConditionTrue, "StorageVersionMigrationSucceeded", "")
		}
	}
}

// rewrite has an object written as it is, by applying nothing to this very version of it. One that has changed
// meanwhile was written by somebody else, and one that has gone need not be.
func (r *controller) rewrite(ctx context.Context, kind *kinds.Kind, o *metav1.PartialObjectMetadata) error {
	version, named := kind.Resource.GroupVersion().WithKind(kind.Kind).ToAPIVersionAndKind()
	nothing, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": named,
		"metadata": map[string]any{"uid": o.UID, "resourceVersion": o.ResourceVersion},
	})
	if err != nil {
		return err
	}
	_, err = r.clients.Dynamic.Resource(kind.Resource).Namespace(o.Namespace).
		Patch(ctx, o.Name, types.ApplyPatchType, nothing, metav1.PatchOptions{FieldManager: name})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write %s %s/%s: %w", kind.Resource, o.Namespace, o.Name, err)
	}
	return nil
}

// passing says that an error is about the server or the way to it, not about the object.
func passing(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || answer.Status().Code >= 500 || answer.Status().Code == 429
}
