package apps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

var replicaSetRules = resource.Rules[*appsv1.ReplicaSet]{
	Validate: checkReplicaSet,
	ValidateUpdate: func(ctx context.Context, rs, old *appsv1.ReplicaSet) field.ErrorList {
		return append(checkReplicaSet(ctx, rs), check.Immutable(rs.Spec.Selector, old.Spec.Selector, selectorPath)...)
	},
	Warnings: func(_ context.Context, rs, old *appsv1.ReplicaSet) []string {
		return podspec.TemplateOwnerWarnings(rs, old, &rs.Spec.Template, templatePath)
	},
}

func checkReplicaSet(ctx context.Context, rs *appsv1.ReplicaSet) field.ErrorList {
	s := &rs.Spec
	errs := nonNegative(specPath, number{"replicas", optional(s.Replicas)}, number{"minReadySeconds", int64(s.MinReadySeconds)})
	return append(errs, checkReplicated(ctx, s.Selector, &s.Template, valueOf(s.Replicas))...)
}

var replicaSetStatusRules = resource.Rules[*appsv1.ReplicaSet]{
	ValidateUpdate: func(_ context.Context, rs, _ *appsv1.ReplicaSet) field.ErrorList {
		s := &rs.Status
		errs := nonNegative(statusPath,
			number{"replicas", int64(s.Replicas)}, number{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
			number{"readyReplicas", int64(s.ReadyReplicas)}, number{"availableReplicas", int64(s.AvailableReplicas)},
			number{"observedGeneration", s.ObservedGeneration}, number{"terminatingReplicas", optional(s.TerminatingReplicas)})
		errs = append(errs, notMoreThan(int64(s.Replicas), "cannot be greater than status.replicas",
			number{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)}, number{"readyReplicas", int64(s.ReadyReplicas)},
			number{"availableReplicas", int64(s.AvailableReplicas)})...)
		return append(errs, notMoreThan(int64(s.ReadyReplicas), "cannot be greater than readyReplicas",
			number{"availableReplicas", int64(s.AvailableReplicas)})...)
	},
}
