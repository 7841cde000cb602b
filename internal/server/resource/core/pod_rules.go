package core

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

var podRules = resource.Rules[*corev1.Pod]{
	PrepareCreate: preparePod,
	PrepareUpdate: func(_ context.Context, p, _ *corev1.Pod) { shortestGrace(p) },
	Validate: func(ctx context.Context, p *corev1.Pod) field.ErrorList {
		return append(podspec.Validate(p, podspec.OptionsFrom(ctx)), podspec.ValidateCreate(p)...)
	},
	ValidateUpdate: checkPodUpdate,
	Warnings: func(_ context.Context, p, old *corev1.Pod) []string {
		if old != nil {
			return nil
		}
		return podspec.PodWarnings(p)
	},
}

// preparePod sets the status of a new pod.
func preparePod(_ context.Context, p *corev1.Pod) {
	shortestGrace(p)
	podspec.MatchOwnLabels(p)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: demand.QOSClass(&p.Spec)}
	if len(p.Spec.SchedulingGates) > 0 {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.Now(),
		}}
	}
}

// shortestGrace makes a negative grace period the shortest one.
func shortestGrace(p *corev1.Pod) {
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		p.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
}

var podStatusRules = resource.Rules[*corev1.Pod]{
	PrepareUpdate: func(_ context.Context, p, old *corev1.Pod) {
		p.OwnerReferences = old.OwnerReferences
		if p.Status.QOSClass == "" {
			p.Status.QOSClass = old.Status.QOSClass
		}
		if ips := p.Status.PodIPs; len(ips) > 0 {
			p.Status.PodIP = ips[0].IP
		}
	},
	ValidateUpdate: checkPodStatus,
}

var ephemeralRules = resource.Rules[*corev1.Pod]{
	PrepareUpdate: func(_ context.Context, p, old *corev1.Pod) {
		added := p.Spec.EphemeralContainers
		restorePod(p, old)
		p.Spec.EphemeralContainers = added
	},
	ValidateUpdate: checkEphemeralUpdate,
}

// restorePod reverts a pod to old, except for its resource version.
func restorePod(p, old *corev1.Pod) {
	version := p.ResourceVersion
	managed := p.ManagedFields
	old.DeepCopyInto(p)
	p.ResourceVersion, p.ManagedFields = version, managed
}
