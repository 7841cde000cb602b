package resource

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// RuleSet is Rules without their Go type. No func of it is nil.
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

// leavingAlone clears the part on create, unless it may be set there, and keeps the old one on update.
func (s *RuleSet) leavingAlone(part string, t reflect.Type, onCreate bool) *RuleSet {
	index := mustField(t, part).Index
	create, update := s.PrepareCreate, s.PrepareUpdate
	if !onCreate {
		s.PrepareCreate = func(ctx context.Context, o Object) {
			elem(o).FieldByIndex(index).SetZero()
			create(ctx, o)
		}
	}
	s.PrepareUpdate = func(ctx context.Context, o, old Object) {
		elem(o).FieldByIndex(index).Set(elem(old).FieldByIndex(index))
		update(ctx, o, old)
	}
	return s
}

// keepingAllBut restores everything outside the metadata except the part. Metadata is the registry's matter.
func (s *RuleSet) keepingAllBut(part string, t reflect.Type) *RuleSet {
	mustField(t, part)
	var keep []int
	for i := range t.NumField() {
		if n := t.Field(i).Name; n != part && n != "TypeMeta" && n != "ObjectMeta" {
			keep = append(keep, i)
		}
	}
	update := s.PrepareUpdate
	s.PrepareUpdate = func(ctx context.Context, o, old Object) {
		to, from := elem(o), elem(old)
		for _, i := range keep {
			to.Field(i).Set(from.Field(i))
		}
		update(ctx, o, old)
	}
	return s
}

func mustField(t reflect.Type, name string) reflect.StructField {
	f, ok := t.FieldByName(name)
	if !ok {
		panic("resource: " + t.String() + " has no field " + name)
	}
	return f
}

func elem(o Object) reflect.Value { return reflect.ValueOf(o).Elem() }

// SpecOf returns the object's spec, or an invalid value if its kind has none.
func SpecOf(o Object) reflect.Value { return elem(o).FieldByName("Spec") }

func subdomain(name string, prefix bool) []string { return validation.NameIsDNSSubdomain(name, prefix) }
