package custom

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	structure "github.com/millrace/millrace/internal/server/custom/schema"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/tree"
)

// ruleSet are rules that do nothing yet.
func ruleSet() *resource.RuleSet {
	return &resource.RuleSet{
		Verbs:          []string{"get", "patch", "update"},
		PrepareCreate:  func(context.Context, resource.Object) {},
		PrepareUpdate:  func(context.Context, resource.Object, resource.Object) {},
		Validate:       func(context.Context, resource.Object) field.ErrorList { return nil },
		ValidateUpdate: func(context.Context, resource.Object, resource.Object) field.ErrorList { return nil },
		Warnings:       func(context.Context, resource.Object, resource.Object) []string { return nil },
	}
}

// mainRules hold for the objects themselves. Stored says that their version is the one that is stored, whose defaults
// objects have when they are read.
func mainRules(k *resource.Kind, s *structure.Schema, stored bool) *resource.RuleSet {
	r := ruleSet()
	r.Verbs = k.Verbs
	if stored {
		r.PrepareCreate = func(_ context.Context, o resource.Object) {
			fill(s, o) // the status that was sent is gone, and may have a default
		}
	}
	r.Validate = func(ctx context.Context, o resource.Object) field.ErrorList {
		if parts, ok := tree.Parts(o); ok && s.Fits(parts) && s.Obeys(ctx, parts) {
			return nil
		}
		return s.Validate(ctx, content(o))
	}
	r.ValidateUpdate = func(ctx context.Context, o, old resource.Object) field.ErrorList {
		if parts, ok := tree.Parts(o); ok && s.Fits(parts) && s.Obeys(ctx, parts) {
			return nil
		}
		return s.ValidateUpdate(ctx, content(o), content(old))
	}
	r.Warnings = func(_ context.Context, o, old resource.Object) []string { return finalizerWarnings(o, old) }
	return r
}

// statusRules hold for the subresource: nothing but the status changes, and who owns it.
func statusRules(s *structure.Schema) *resource.RuleSet {
	r := ruleSet()
	r.PrepareUpdate = func(_ context.Context, o, old resource.Object) {
		owners := o.GetManagedFields()
		if parts, ok := tree.Parts(o); ok {
			if before, ok := tree.Parts(old); ok {
				parts.Describe(before)
				o.SetManagedFields(owners)
				return
			}
		}
		meta, _, _ := unstructured.NestedMap(content(old), "metadata") // a copy
		content(o)["metadata"] = meta
		o.SetManagedFields(owners)
	}
	r.ValidateUpdate = func(ctx context.Context, o, old resource.Object) field.ErrorList {
		if parts, ok := tree.Parts(o); ok && s.Fits(parts) && s.Obeys(ctx, parts) {
			return nil
		}
		return s.ValidateStatusUpdate(ctx, content(o), content(old))
	}
	return r
}

// changed tells whether an update counts as a new generation: whatever is not metadata does.
func changed(o, old resource.Object) bool {
	if now, ok := tree.Parts(o); ok {
		if before, ok := tree.Parts(old); ok {
			return !tree.SameParts(now, before)
		}
	}
	a, b := content(o), content(old)
	for name, value := range a {
		if before, ok := b[name]; name != "metadata" && (!ok || !tree.Equal(value, before)) {
			return true
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok && name != "metadata" {
			return true
		}
	}
	return false
}

var standardFinalizers = []string{metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, "kubernetes"}

// finalizerWarnings tell of new finalizers whose names may be somebody else's.
func finalizerWarnings(o, old resource.Object) []string {
	added := slices.Clone(o.GetFinalizers())
	if old != nil {
		added = slices.DeleteFunc(added, func(f string) bool { return slices.Contains(old.GetFinalizers(), f) })
	}
	slices.Sort(added)
	var out []string
	for _, f := range slices.Compact(added) {
		for _, msg := range validation.IsQualifiedName(f) {
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: %s", f, msg))
		}
		switch {
		case strings.Contains(f, "/") || slices.Contains(standardFinalizers, f):
		case strings.Contains(f, "."):
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers", f))
		default:
			out = append(out, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", f))
		}
	}
	return out
}
