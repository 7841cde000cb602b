// Package devices describes the kinds of the group resource.k8s.io: claims of devices, and the devices that nodes have.
//
// The group's published types say most of what is wrong with an object themselves (k8s.io/api's declarative validation). This
// package adds what they do not say.
package devices

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/server/resource"
)

// Kinds are the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{Classes(), TaintRules(), Claims(), ClaimTemplates(), Slices()}
}

// declared is what a type says of its values.
type declared[T any] func(ctx context.Context, op operation.Operation, path *field.Path, obj, old *T) field.ErrorList

// created is what a type says of a new value, without what Kubernetes only tries out.
func (d declared[T]) created(ctx context.Context, part string, obj *T) field.ErrorList {
	return enforced(d(ctx, operation.Operation{Type: operation.Create, Options: options}, field.NewPath(part), obj, nil))
}

// updated is what a type says of a change.
func (d declared[T]) updated(ctx context.Context, part string, obj, old *T) field.ErrorList {
	if equality.Semantic.DeepEqual(obj, old) {
		return nil
	}
	return enforced(d(ctx, operation.Operation{Type: operation.Update, Options: options}, field.NewPath(part), obj, old))
}

// options are the features that types ask about.
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

// both puts together what this package and what a type says.
func both(own, declared field.ErrorList) field.ErrorList { return append(own, declared...) }
