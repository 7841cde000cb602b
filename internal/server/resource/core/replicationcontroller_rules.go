package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

var controllerRules = resource.Rules[*corev1.ReplicationController]{
	Validate: checkController,
	ValidateUpdate: func(ctx context.Context, rc, _ *corev1.ReplicationController) field.ErrorList {
		return checkController(ctx, rc)
	},
	Warnings: func(_ context.Context, rc, old *corev1.ReplicationController) []string {
		return podspec.TemplateOwnerWarnings(rc, old, rc.Spec.Template, field.NewPath("spec", "template"))
	},
}

func checkController(ctx context.Context, rc *corev1.ReplicationController) field.ErrorList {
	s, spec := &rc.Spec, field.NewPath("spec")
	errs := check.NonNegative(int64(s.MinReadySeconds), spec.Child("minReadySeconds"))
	if len(s.Selector) == 0 {
		errs = append(errs, field.Required(spec.Child("selector"), ""))
	}
	var replicas int32
	if s.Replicas == nil {
		errs = append(errs, field.Required(spec.Child("replicas"), ""))
	} else {
		replicas = *s.Replicas
		errs = append(errs, check.NonNegative(int64(replicas), spec.Child("replicas"))...)
	}
	template := spec.Child("template")
	if s.Template == nil {
		return append(errs, field.Required(template, ""))
	}
	errs = append(errs, podspec.ValidateSelected(s.Template, labels.Set(s.Selector).AsSelectorPreValidated(), template)...)
	errs = append(errs, podspec.ValidateTemplate(s.Template, template, podspec.OptionsFrom(ctx))...)
	if replicas > 1 {
		errs = append(errs, podspec.ValidateShared(s.Template, template)...)
	}
	return append(errs, podspec.ValidateRunningTemplate(s.Template, template, "ReplicationController")...)
}

var controllerStatusRules = resource.Rules[*corev1.ReplicationController]{
	ValidateUpdate: func(_ context.Context, rc, _ *corev1.ReplicationController) field.ErrorList {
		s, status := &rc.Status, field.NewPath("status")
		var errs field.ErrorList
		for _, n := range []struct {
			name  string
			value int64
		}{
			{"replicas", int64(s.Replicas)}, {"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
			{"readyReplicas", int64(s.ReadyReplicas)}, {"availableReplicas", int64(s.AvailableReplicas)},
			{"observedGeneration", s.ObservedGeneration},
		} {
			errs = append(errs, check.NonNegative(n.value, status.Child(n.name))...)
		}
		for _, n := range []struct {
			name  string
			value int32
		}{
			{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas},
		} {
			if n.value > s.Replicas {
				errs = append(errs, field.Invalid(status.Child(n.name), n.value, "cannot be greater than status.replicas"))
			}
		}
		if s.AvailableReplicas > s.ReadyReplicas {
			errs = append(errs, field.Invalid(status.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
		}
		return errs
	},
}
