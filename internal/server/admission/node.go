package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
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
func (cl *cluster) podTopologyLabels() registry.Admission {
	return mutating("PodTopologyLabels", func(ctx context.Context, c *registry.Change) error {
		o, nodeName := placed(c)
		if nodeName == "" {
			return nil
		}
		_, node, err := cl.nodes.find(ctx, "", nodeName) // a decoded one of each node would be kept for its labels
		if err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
		labels := o.GetLabels()
		for _, key := range topologyLabels {
			value, ok := node.Labels.Lookup(key)
			if !ok {
				continue
			}
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
		}
		o.SetLabels(labels)
		return nil
	})
}

// placed is what gives a pod its node: the new pod itself, or its binding.
func placed(c *registry.Change) (o metav1.Object, node string) {
	if c.Operation != registry.Create || !is(c, "", "pods") {
		return nil, ""
	}
	switch c.View {
	case "":
		pod := c.Object.(*corev1.Pod)
		return pod, pod.Spec.NodeName
	case "binding":
		binding := c.Body.(*corev1.Binding)
		return binding, binding.Target.Name
	}
	return nil, ""
}
