// Package devices describes the kinds of the group resource.k8s.io: claims of devices, and the devices of nodes.
//
// Most of the validation is declared by the group's published types (k8s.io/api's declarative validation). This package
// adds the rest.
package devices

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{Classes(), TaintRules(), Claims(), ClaimTemplates(), Slices()}
}

// declared is a type's declarative validation.
type declared[T any] func(ctx context.Context, op operation.Operation, path *field.Path, obj, old *T) field.ErrorList

// created validates a new value, without validation that is experimental in Kubernetes.
func (d declared[T]) created(ctx context.Context, part string, obj *T) field.ErrorList {
	return enforced(d(ctx, operation.Operation{Type: operation.Create, Options: options}, field.NewPath(part), obj, nil))
}

// updated validates a change.
func (d declared[T]) updated(ctx context.Context, part string, obj, old *T) field.ErrorList {
	if equality.Semantic.DeepEqual(obj, old) {
		return nil
	}
	return enforced(d(ctx, operation.Operation{Type: operation.Update, Options: options}, field.NewPath(part), obj, old))
}

// options are the features that the declarative validation depends on.
var options = map[string]bool{"DRAPartitionableDevicesType": false}

func enforced(all field.ErrorList) field.ErrorList {
	var out field.ErrorList
	for _, e := range all {
		if !e.IsAlpha() {
			out = append(out, e)
		}
	}
	return out
}

// both combines the errors of this package and of the declarative validation.
func both(own, declared field.ErrorList) field.ErrorList { return append(own, declared...) }
