package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/registry"
)

// podTolerationRestriction gives pods the tolerations of their namespace, and lets them have no others than it allows.
func (cl *cluster) podTolerationRestriction(all Configuration) (registry.Admission, error) {
	var config struct {
		Default   []corev1.Toleration `json:"default"`
		Whitelist []corev1.Toleration `json:"whitelist"`
	}
	if err := all.of("PodTolerationRestriction", &config); err != nil {
		return registry.Admission{}, err
	}
	return registry.Admission{Name: "PodTolerationRestriction",
		Mutate: func(ctx context.Context, c *registry.Change) error {
			pod := podOf(c)
			if pod == nil {
				return nil
			}
			var more []corev1.Toleration
			if c.Operation == registry.Create {
				ns, err := cl.namespaces.get(ctx, "", c.Namespace)
				if err != nil {
					return err
				}
				if more, err = tolerations(ns, tolerationsAnnotation); err != nil {
					return err
				}
				if more == nil {
					more = slices.Clone(config.Default)
				}
			}
			if demand.QOSClass(&pod.Spec) != corev1.PodQOSBestEffort {
				more = append(more, corev1.Toleration{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
			}
			if len(more) > 0 {
				pod.Spec.Tolerations = merged(append(slices.Clone(pod.Spec.Tolerations), more...))
			}
			return nil
		},
		Validate: func(ctx context.Context, c *registry.Change) error {
			pod := podOf(c)
			if pod == nil || len(pod.Spec.Tolerations) == 0 {
				return nil
			}
			ns, err := cl.namespaces.get(ctx, "", c.Namespace)
			if err != nil {
				return err
			}
			allowed, err := tolerations(ns, allowedAnnotation)
			if err != nil {
				return err
			}
			scope := "namespace"
			if allowed == nil {
				allowed, scope = config.Whitelist, "cluster"
			}
			for _, t := range pod.Spec.Tolerations {
				if len(allowed) > 0 && !slices.ContainsFunc(allowed, func(a corev1.Toleration) bool { return includes(a, t) }) {
					return fmt.Errorf("pod tolerations (possibly merged with namespace default tolerations) conflict with its %s whitelist", scope)
				}
			}
			return nil
		},
	}, nil
}

// merged leaves out the tolerations that others include. Of equal ones the first stays.
func merged(all []corev1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for i, t := range all {
		redundant := slices.ContainsFunc(out, func(o corev1.Toleration) bool { return includes(o, t) }) ||
			slices.ContainsFunc(all[i+1:], func(o corev1.Toleration) bool { return !equality.Semantic.DeepEqual(o, t) && includes(o, t) })
		if !redundant {
			out = append(out, t)
		}
	}
	return out
}

// includes tells whether a toleration tolerates all that another one does.
func includes(a, b corev1.Toleration) bool {
	switch {
	case equality.Semantic.DeepEqual(a, b):
		return true
	case a.Key != b.Key && (a.Key != "" || a.Operator != corev1.TolerationOpExists):
		return false
	case a.Effect != b.Effect && a.Effect != "":
		return false
	case a.Effect == corev1.TaintEffectNoExecute && a.TolerationSeconds != nil && (b.TolerationSeconds == nil || *b.TolerationSeconds > *a.TolerationSeconds):
		return false
	case a.Operator == corev1.TolerationOpExists:
		return true
	}
	return (a.Operator == corev1.TolerationOpEqual || a.Operator == "") && b.Operator == corev1.TolerationOpEqual && a.Value == b.Value
}
