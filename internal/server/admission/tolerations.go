package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

// outage is for how many seconds a pod stays on a failing node, unless the pod or the options say something else.
const outage = int64(300)

// defaultTolerationSeconds lets pods stay on a failing node for so many seconds; nil means five minutes.
func defaultTolerationSeconds(notReady, unreachable *int64) registry.Admission {
	return mutating("DefaultTolerationSeconds", func(_ context.Context, c *registry.Change) error {
		if !is(c, "", "pods") || c.View != "" || c.Operation != registry.Create && c.Operation != registry.Update {
			return nil
		}
		pod := c.Object.(*corev1.Pod)
		for _, one := range []struct {
			key     string
			seconds *int64
		}{{corev1.TaintNodeNotReady, notReady}, {corev1.TaintNodeUnreachable, unreachable}} {
			if tolerates(pod, one.key) {
				continue
			}
			seconds := outage
			if one.seconds != nil {
				seconds = *one.seconds
			}
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: one.key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
		}
		return nil
	})
}

func tolerates(pod *corev1.Pod, key string) bool {
	for _, t := range pod.Spec.Tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
