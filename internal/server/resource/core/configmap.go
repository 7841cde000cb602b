package core

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// ConfigMaps hold configuration that is not secret.
func ConfigMaps() *resource.Kind {
	return resource.Define(resource.Description[*corev1.ConfigMap]{
		Group: "", Version: "v1", Kind: "ConfigMap", Resource: "configmaps",
		ValidateMetaTwice: true,
		Namespaced:        true, ShortNames: []string{"cm"},
		UnconditionalUpdate: true,
		Rules: resource.Rules[*corev1.ConfigMap]{
			Validate: func(_ context.Context, cm *corev1.ConfigMap) field.ErrorList { return checkConfigMap(cm) },
			ValidateUpdate: func(_ context.Context, cm, old *corev1.ConfigMap) field.ErrorList {
				return checkConfigMapUpdate(cm, old)
			},
		},
		Columns: []table.Column{
			table.Name(),
			table.Text("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]),
			table.Age(),
		},
		Row: func(cm *corev1.ConfigMap) resource.Row {
			return resource.Row{Cells: []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), table.Since(cm.CreationTimestamp)}}
		},
	})
}

func checkConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		size += len(cm.Data[key])
		errs = append(errs, checkDataKey("data", key)...)
		if _, twice := cm.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		size += len(cm.BinaryData[key])
		errs = append(errs, checkDataKey("binaryData", key)...)
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

func checkDataKey(part, key string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(field.NewPath(part).Key(key), key, msg))
	}
	return errs
}

const immutableWhenSet = "field is immutable when `immutable` is set"

func checkConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if isTrue(old.Immutable) {
		if !isTrue(cm.Immutable) {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableWhenSet))
		}
		if !maps.Equal(cm.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableWhenSet))
		}
		if !maps.EqualFunc(cm.BinaryData, old.BinaryData, slices.Equal[[]byte]) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableWhenSet))
		}
	}
	return append(errs, checkConfigMap(cm)...)
}

func isTrue(b *bool) bool { return b != nil && *b }
