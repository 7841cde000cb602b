package schema

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
)

// Kubernetes' bounds on what CEL rules may cost: one of them, and all of one object.
const (
	costLimit  = 1_000_000
	costBudget = 10_000_000
)

// Validate checks a new object.
func (s *Schema) Validate(ctx context.Context, object map[string]any) field.ErrorList {
	c, err := s.compile()
	if err != nil {
		return broken(err)
	}
	if c.plan.Valid(object) {
		return c.checkRules(ctx, nil, object, nil)
	}
	checks, err := c.checks()
	if err != nil {
		return broken(err)
	}
	errs := validation.ValidateCustomResource(nil, object, checks.whole)
	errs = append(errs, objectmeta.Validate(ctx, nil, object, c.tree, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.tree, object)...)
	return append(errs, c.checkRules(ctx, errs, object, nil)...)
}

// ValidateUpdate checks a changed object. What was wrong before and has not changed is let pass.
func (s *Schema) ValidateUpdate(ctx context.Context, object, old map[string]any) field.ErrorList {
	c, err := s.compile()
	if err != nil {
		return broken(err)
	}
	ratchet := common.NewCorrelatedObject(object, old, &model.Structural{Structural: c.tree})
	if c.plan.Valid(object) {
		return c.checkRules(ctx, nil, object, old, cel.WithRatcheting(ratchet))
	}
	checks, err := c.checks()
	if err != nil {
		return broken(err)
	}
	errs := validation.ValidateCustomResourceUpdate(nil, object, old, checks.whole, validation.WithRatcheting(ratchet))
	errs = append(errs, objectmeta.Validate(ctx, nil, object, c.tree, false)...)
	errs = append(errs, c.checkLists(object, old)...)
	return append(errs, c.checkRules(ctx, errs, object, old, cel.WithRatcheting(ratchet))...)
}

// ValidateStatusUpdate checks an object whose status was changed.
func (s *Schema) ValidateStatusUpdate(ctx context.Context, object, old map[string]any) field.ErrorList {
	c, err := s.compile()
	if err != nil {
		return broken(err)
	}
	ratchet := common.NewCorrelatedObject(object, old, &model.Structural{Structural: c.tree})
	if c.plan.Valid(object) {
		return c.checkRules(ctx, nil, object, old, cel.WithRatcheting(ratchet))
	}
	checks, err := c.checks()
	if err != nil {
		return broken(err)
	}
	var errs field.ErrorList
	if status, ok := object["status"]; ok && checks.status != nil {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old["status"], checks.status, validation.WithRatcheting(ratchet.Key("status")))
	}
	errs = append(errs, c.checkLists(object, old)...)
	return append(errs, c.checkRules(ctx, errs, object, old, cel.WithRatcheting(ratchet))...)
}

// checkLists looks for elements that are there twice, unless there were such before.
func (c *compiled) checkLists(object, old map[string]any) field.ErrorList {
	if len(listtype.ValidateListSetsAndMaps(nil, c.tree, old)) > 0 {
		return nil
	}
	return listtype.ValidateListSetsAndMaps(nil, c.tree, object)
}

// checkRules runs the CEL rules, unless the object is so wrong that they might not make sense of it.
func (c *compiled) checkRules(ctx context.Context, found field.ErrorList, object, old map[string]any, options ...cel.Option) field.ErrorList {
	rules := c.rules()
	if rules == nil {
		return nil
	}
	for _, e := range found {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
		}
	}
	var before any
	if old != nil {
		before = old
	}
	errs, _ := rules.Validate(ctx, nil, c.tree, object, before, costBudget, options...)
	return errs
}

func broken(err error) field.ErrorList { return field.ErrorList{field.InternalError(nil, err)} }
