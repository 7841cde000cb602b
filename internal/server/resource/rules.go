package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RuleSet is Rules without their Go type. None of its funcs is nil.
type RuleSet struct {
	Verbs          []string
	PrepareCreate  func(context.Context, Object)
	PrepareUpdate  func(ctx context.Context, obj, old Object)
	Validate       func(context.Context, Object) field.ErrorList
	ValidateUpdate func(ctx context.Context, obj, old Object) field.ErrorList
	Warnings       func(ctx context.Context, obj, old Object) []string
}

func (r Rules[P]) erase() *RuleSet {
	s := &RuleSet{
		Verbs:          []string{"get", "patch", "update"},
		PrepareCreate:  func(context.Context, Object) {},
		PrepareUpdate:  func(context.Context, Object, Object) {},
		Validate:       func(context.Context, Object) field.ErrorList { return nil },
		ValidateUpdate: func(context.Context, Object, Object) field.ErrorList { return nil },
		Warnings:       func(context.Context, Object, Object) []string { return nil },
	}
	if r.PrepareCreate != nil {
		s.PrepareCreate = func(ctx context.Context, o Object) { r.PrepareCreate(ctx, o.(P)) }
	}
	if r.PrepareUpdate != nil {
		s.PrepareUpdate = func(ctx context.Context, o, old Object) { r.PrepareUpdate(ctx, o.(P), old.(P)) }
	}
	if r.Validate != nil {
		s.Validate = func(ctx context.Context, o Object) field.ErrorList { return r.Validate(ctx, o.(P)) }
	}
	if r.ValidateUpdate != nil {
		s.ValidateUpdate = func(ctx context.Context, o, old Object) field.ErrorList {
			return r.ValidateUpdate(ctx, o.(P), old.(P))
		}
	}
	if r.Warnings != nil {
		s.Warnings = func(ctx context.Context, o, old Object) []string {
			var before P
			if old != nil {
				before = old.(P)
			}
			return r.Warnings(ctx, o.(P), before)
		}
	}
	return s
}

// SeparateStatus makes updates of the main resource keep the status, and updates of the status keep everything else. A
// create clears the status unless onCreate is true.
func (k *Kind) SeparateStatus(onCreate bool) {
	main, status := k.Main, k.Views["status"]
	create, update := main.PrepareCreate, main.PrepareUpdate
	if !onCreate {
		main.PrepareCreate = func(ctx context.Context, o Object) {
			k.Keep(o, nil, "status")
			create(ctx, o)
		}
	}
	main.PrepareUpdate = func(ctx context.Context, o, old Object) {
		k.Keep(o, old, "status")
		update(ctx, o, old)
	}
	updateStatus := status.PrepareUpdate
	status.PrepareUpdate = func(ctx context.Context, o, old Object) {
		k.KeepAllBut(o, old, "status")
		updateStatus(ctx, o, old)
	}
}

func subdomain(name string, prefix bool) []string { return validation.NameIsDNSSubdomain(name, prefix) }
