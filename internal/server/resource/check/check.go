// Package check has validations that many kinds share. Each returns nil for a valid value, and builds an error only for
// an invalid one. The messages are those of Kubernetes.
package check

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/quote"
)

// NonNegative requires a number of at least 0.
func NonNegative(n int64, path *field.Path) field.ErrorList {
	if n >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, validation.IsNegativeErrorMsg).WithOrigin("minimum")}
}

// Immutable requires that now equals before.
func Immutable[T any](now, before T, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	var shown any = now
	if _, text := shown.(string); !text {
		shown = quote.Of(now)
	}
	return field.ErrorList{field.Invalid(path, shown, validation.FieldImmutableErrorMsg).WithOrigin("immutable")}
}

// OneOf requires one of the known values; Kubernetes lists them in the given order.
func OneOf[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

// Invalid returns an error for each message.
func Invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(path, value, m))
	}
	return errs
}
