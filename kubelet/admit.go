package kubelet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/kubelet/source"
	"github.com/millrace/millrace/kubelet/worker"
)

// admit decides whether the node takes a pod: whether what the scheduler saw, if there was one, is true here.
func (k *Kubelet) admit(pod *corev1.Pod) *worker.Rejection {
	if r := k.underPressure(pod); r != nil {
		return r
	}
	others := k.others(pod)
	if r := fits(pod, others, k.allocatable()); r != nil {
		return r
	}
	if port := conflict(pod, others); port != 0 {
		return &worker.Rejection{Reason: "NodePorts", Message: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
	}
	if source.Static(pod) {
		return nil
	}
	if k.self == nil {
		return nil
	}
	n, ok := k.self.Lookup(informer.Key{Name: k.options.Name})
	if !ok {
		return nil
	}
	if !selected(pod, n) {
		return &worker.Rejection{Reason: "NodeAffinity", Message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	if t := intolerable(pod, n.Spec.Taints); t != nil {
		return &worker.Rejection{Reason: "TaintToleration", Message: fmt.Sprintf("Predicate TaintToleration failed: node(s) had untolerated taint {%s: %s}", t.Key, t.Value)}
	}
	return nil
}

// others are the pods that take up room beside one.
func (k *Kubelet) others(pod *corev1.Pod) []*corev1.Pod {
	others := slices.DeleteFunc(k.config.Pods(), func(p *corev1.Pod) bool {
		return p.UID == pod.UID || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || !k.crew.Admitted(informer.KeyOf(p))
	})
	for i, p := range others {
		others[i] = k.crew.Granted(p)
	}
	return others
}

func (k *Kubelet) allocatable() corev1.ResourceList {
	f := k.facts()
	return f.Node(now()).Status.Allocatable
}

func fits(pod *corev1.Pod, others []*corev1.Pod, room corev1.ResourceList) *worker.Rejection {
	if most := room.Pods().Value(); int64(len(others)) >= most {
		return &worker.Rejection{Reason: "OutOfpods", Message: fmt.Sprintf("Node didn't have enough resource: pods, requested: 1, used: %d, capacity: %d", len(others), most)}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		asked := amount(pod, name)
		if asked.IsZero() {
			continue
		}
		used := resource.Quantity{}
		for _, p := range others {
			used.Add(amount(p, name))
		}
		total := used.DeepCopy()
		total.Add(asked)
		if has := room[name]; total.Cmp(has) > 0 {
			return &worker.Rejection{Reason: "OutOf" + string(name), Message: fmt.Sprintf(
				"Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
				name, number(name, asked), number(name, used), number(name, has))}
		}
	}
	return nil
}

// number is a quantity in the unit that messages have: thousandths of a processor, and bytes.
func number(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// amount is how much of a resource a pod asks for: what its containers and sidecars need together, or its largest init
// container if that is more.
func amount(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var sum, sidecars, most resource.Quantity
	for i := range pod.Spec.Containers {
		sum.Add(pod.Spec.Containers[i].Resources.Requests[name])
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		need := c.Resources.Requests[name]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(need)
			continue
		}
		need.Add(sidecars)
		if need.Cmp(most) > 0 {
			most = need
		}
	}
	sum.Add(sidecars)
	if most.Cmp(sum) > 0 {
		sum = most
	}
	sum.Add(pod.Spec.Overhead[name])
	return sum
}

// conflict is a host port that another pod has, or 0.
func conflict(pod *corev1.Pod, others []*corev1.Pod) int32 {
	taken := map[string]bool{}
	for _, p := range others {
		for _, port := range hostPorts(p) {
			taken[fmt.Sprintf("%s/%d", port.Protocol, port.HostPort)] = true
		}
	}
	for _, port := range hostPorts(pod) {
		if taken[fmt.Sprintf("%s/%d", port.Protocol, port.HostPort)] {
			return port.HostPort
		}
	}
	return 0
}

func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var all []corev1.ContainerPort
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort != 0 {
				all = append(all, p)
			}
		}
	}
	return all
}

func intolerable(pod *corev1.Pod, taints []corev1.Taint) *corev1.Taint {
	for i := range taints {
		t := &taints[i]
		if t.Effect != corev1.TaintEffectNoExecute {
			continue // those that only keep the scheduler away are its business
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(o corev1.Toleration) bool { return tolerates(&o, t) }) {
			return t
		}
	}
	return nil
}

func tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	return o.Operator == corev1.TolerationOpExists || o.Key != "" && o.Value == t.Value
}

// selected reports whether a pod's node selector and required affinity choose a node.
func selected(pod *corev1.Pod, n *corev1.Node) bool {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(n.Labels)) {
		return false
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	return slices.ContainsFunc(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && meets(t.MatchExpressions, n.Labels) &&
			meets(t.MatchFields, map[string]string{"metadata.name": n.Name})
	})
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
}

func meets(requirements []corev1.NodeSelectorRequirement, set map[string]string) bool {
	for _, r := range requirements {
		one, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		if err != nil || !one.Matches(labels.Set(set)) {
			return false
		}
	}
	return true
}
