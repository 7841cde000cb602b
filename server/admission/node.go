package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/server/registry"
)

// taintNodesByCondition keeps pods away from a new node until somebody has seen that it is ready.
func taintNodesByCondition() registry.Admission {
	return mutating("TaintNodesByCondition", func(_ context.Context, c *registry.Change) error {
		if !creates(c, "nodes") {
			return nil
		}
		n := c.Object.(*corev1.Node)
		taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			n.Spec.Taints = append(n.Spec.Taints, taint)
		}
		return nil
	})
}

// topologyLabels are those that a pod takes over from its node.
var topologyLabels = []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion}

// podTopologyLabels tells a pod where its node is.
func (w *cluster) podTopologyLabels() registry.Admission {
	return mutating("PodTopologyLabels", func(ctx context.Context, c *registry.Change) error {
		if !is(c, "", "pods") || !(c.View == "binding" || c.View == "" && c.Operation == registry.Create) || c.Object == nil {
			return nil
		}
		pod := c.Object.(*corev1.Pod)
		if pod.Spec.NodeName == "" {
			return nil
		}
		_, node, err := w.nodes.find(ctx, "", pod.Spec.NodeName) // a decoded one of each node would be kept for its labels
		if err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		for _, key := range topologyLabels {
			value, ok := node.Labels.Lookup(key)
			if !ok {
				continue
			}
			if pod.Labels == nil {
				pod.Labels = map[string]string{}
			}
			pod.Labels[key] = value
		}
		return nil
	})
}
