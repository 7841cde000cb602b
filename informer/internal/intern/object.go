package intern

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object replaces strings of a decoded object by the kept copies. No other goroutine may have the object yet.
func (s *Strings) Object(object any) {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		if o.Object != nil {
			o.Object = s.tree(o.Object).(map[string]any)
		}
		return
	case *corev1.Pod:
		s.pod(o)
	}
	if o, ok := object.(metav1.Object); ok {
		s.metadata(o)
	}
}

func (s *Strings) metadata(object metav1.Object) {
	object.SetNamespace(s.String(object.GetNamespace()))
	object.SetLabels(s.internMap(object.GetLabels(), true))
	object.SetAnnotations(s.internMap(object.GetAnnotations(), false))
	owners := object.GetOwnerReferences()
	for i := range owners {
		owner := &owners[i]
		owner.APIVersion, owner.Kind = s.String(owner.APIVersion), s.String(owner.Kind)
		owner.Name = s.String(owner.Name)
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
}

// internMap returns a map whose keys are kept copies; its values too, if values is true.
func (s *Strings) internMap(internMap map[string]string, values bool) map[string]string {
	if internMap == nil {
		return nil
	}
	shared := make(map[string]string, len(internMap))
	for key, value := range internMap {
		if values {
			value = s.String(value)
		}
		shared[s.String(key)] = value
	}
	return shared
}

func (s *Strings) pod(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	for _, text := range []*string{
		&spec.NodeName, &spec.ServiceAccountName, &spec.DeprecatedServiceAccount, &spec.SchedulerName,
		&spec.PriorityClassName, &status.HostIP, (*string)(&spec.RestartPolicy), (*string)(&spec.DNSPolicy), (*string)(&status.Phase),
	} {
		*text = s.String(*text)
	}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Name, c.Image = s.String(c.Name), s.String(c.Image)
			for j := range c.Env {
				c.Env[j].Name = s.String(c.Env[j].Name)
			}
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			c.Name, c.Image, c.ImageID = s.String(c.Name), s.String(c.Image), s.String(c.ImageID)
		}
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Type, c.Reason = corev1.PodConditionType(s.String(string(c.Type))), s.String(c.Reason)
	}
}

// tree replaces the keys of a decoded JSON tree, and its short strings.
func (s *Strings) tree(node any) any {
	switch n := node.(type) {
	case map[string]any:
		shared := make(map[string]any, len(n))
		for key, value := range n {
			shared[s.String(key)] = s.tree(value)
		}
		return shared
	case []any:
		for i := range n {
			n[i] = s.tree(n[i])
		}
	case string:
		if len(n) <= 64 {
			return s.String(n)
		}
	}
	return node
}
