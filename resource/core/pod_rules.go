package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/podspec"
)

var podRules = resource.Rules[*corev1.Pod]{
	PrepareCreate: func(_ context.Context, p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: podspec.QOSClass(&p.Spec)}
		if len(p.Spec.SchedulingGates) > 0 {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
				Message: "Scheduling is blocked due to non-empty scheduling gates",
			}}
		}
	},
}

var podStatusRules = resource.Rules[*corev1.Pod]{}
var ephemeralRules = resource.Rules[*corev1.Pod]{}
var resizeRules = resource.Rules[*corev1.Pod]{}
