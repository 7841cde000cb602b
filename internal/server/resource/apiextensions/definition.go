// Package apiextensions describes the kinds of the group apiextensions.k8s.io: definitions of custom resources.
//
// Definitions are validated by Kubernetes' published rules (k8s.io/apiextensions-apiserver), which include structural
// schemas, valid defaults, and the cost of CEL expressions. package internal/server/custom implements the API that a
// definition describes.
package apiextensions

import (
	"context"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{Definitions()} }

// Definitions describe custom resources.
func Definitions() *resource.Kind {
	k := resource.Define(resource.Description[*v1.CustomResourceDefinition]{
		Group: v1.GroupName, Version: "v1", Kind: "CustomResourceDefinition", Resource: "customresourcedefinitions",
		Prefix:     v1.GroupName + "/customresourcedefinitions",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
		FreeFinalizers: true,
		Default:        defaults,
		// The first delete starts the deletion of the objects.
		Held:          func(d *v1.CustomResourceDefinition) bool { return d.DeletionTimestamp == nil },
		PrepareDelete: prepareDelete,
		Rules: resource.Rules[*v1.CustomResourceDefinition]{
			PrepareCreate:  func(_ context.Context, d *v1.CustomResourceDefinition) { noteStorage(d) },
			PrepareUpdate:  func(_ context.Context, d, _ *v1.CustomResourceDefinition) { noteStorage(d) },
			Validate:       check,
			ValidateUpdate: checkUpdate,
			Warnings:       warnings,
		},
		Status: &resource.Rules[*v1.CustomResourceDefinition]{
			ValidateUpdate: func(ctx context.Context, d, old *v1.CustomResourceDefinition) field.ErrorList {
				return checkStatusUpdate(ctx, d, old)
			},
		},
		Forms: []resource.Form[*v1.CustomResourceDefinition]{storedForm()},
	})
	k.Followed = true
	return k
}

// prepareDelete keeps a definition until its objects are deleted. The generation does not change, and there is no grace
// period.
func prepareDelete(d *v1.CustomResourceDefinition) {
	d.DeletionGracePeriodSeconds = nil
	d.Generation--
	if !apihelpers.CRDHasFinalizer(d, v1.CustomResourceCleanupFinalizer) {
		d.Finalizers = append(d.Finalizers, v1.CustomResourceCleanupFinalizer)
	}
	apihelpers.SetCRDCondition(d, v1.CustomResourceDefinitionCondition{
		Type: v1.Terminating, Status: v1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
}

// noteStorage records the storage version in status.storedVersions.
func noteStorage(d *v1.CustomResourceDefinition) {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			if !slices.Contains(d.Status.StoredVersions, v.Name) {
				d.Status.StoredVersions = append(slices.Clone(d.Status.StoredVersions), v.Name)
			}
			return
		}
	}
}
