package storageversionmigrator

import (
	"context"
	"encoding/json"
	"fmt"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// migrating is the condition of a definition whose objects are being migrated.
const migrating = "StorageMigrating"

// definitionOf is the definition of a migration's resource, or nil if it has none.
func (r *controller) definitionOf(ctx context.Context, m *migrationv1.StorageVersionMigration) (*unstructured.Unstructured, error) {
	if m.Spec.Resource.Group == "" {
		return nil, nil
	}
	d, err := r.clients.Dynamic.Resource(definitions).Get(ctx, m.Spec.Resource.Resource+"."+m.Spec.Resource.Group, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the definition of %s.%s: %w", m.Spec.Resource.Resource, m.Spec.Resource.Group, err)
	}
	return d, nil
}

// mark says in a definition that its objects are being migrated.
func (r *controller) mark(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	d, err := r.definitionOf(ctx, m)
	if d == nil || err != nil {
		return err
	}
	return r.say(ctx, d, metav1.ConditionTrue, "MigrationRunning", fmt.Sprintf("Migration %s is running", m.Name), "")
}

// unmark says in a definition that the migration has ended. Only the storage version is left among those that are
// stored, if the definition is the one that the migration began with.
func (r *controller) unmark(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	d, err := r.definitionOf(ctx, m)
	if d == nil || err != nil {
		return err
	}
	if !is(m, migrationv1.MigrationSucceeded) {
		return r.say(ctx, d, metav1.ConditionFalse, "MigrationFailed", "The migration has failed", "")
	}
	message, stored := "The migration has succeeded and the stored versions have been updated", storageVersion(d)
	if !unchanged(d) {
		message, stored = "The migration has succeeded but the stored versions have not been updated due to a generation mismatch", ""
	}
	return r.say(ctx, d, metav1.ConditionFalse, "MigrationSucceeded", message, stored)
}

// unchanged says that a definition's spec is that of when it was marked.
func unchanged(d *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == migrating {
			generation, _, _ := unstructured.NestedInt64(c, "observedGeneration")
			return generation == d.GetGeneration()
		}
	}
	return false
}

func storageVersion(d *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			name, _, _ := unstructured.NestedString(v, "name")
			return name
		}
	}
	return ""
}

// say applies the condition, and the stored version if there is one, to this version of a definition and to no other.
func (r *controller) say(ctx context.Context, d *unstructured.Unstructured, status metav1.ConditionStatus, reason, message, stored string) error {
	told := map[string]any{"conditions": []any{map[string]any{
		"type": migrating, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": metav1.NewTime(r.clients.Now()), "observedGeneration": d.GetGeneration(),
	}}}
	if stored != "" {
		told["storedVersions"] = []string{stored}
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": d.GetName(), "uid": d.GetUID(), "resourceVersion": d.GetResourceVersion()}, "status": told,
	})
	if err != nil {
		return err
	}
	force := true
	_, err = r.clients.Dynamic.Resource(definitions).
		Patch(ctx, d.GetName(), types.ApplyPatchType, patch, metav1.PatchOptions{FieldManager: runner, Force: &force}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the status of definition %s: %w", d.GetName(), err)
	}
	return nil
}
