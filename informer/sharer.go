package informer

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sharer makes decoded objects share the strings that repeat from one to the next: a hundred thousand pods have the
// names of few nodes, namespaces and images between them.
type sharer struct {
	words vocabulary
}

// object replaces strings in an object that nobody else has seen yet.
func (s *sharer) object(object any) {
	switch o := object.(type) {
	case *unstructured.Unstructured:
		if o.Object != nil {
			o.Object = s.tree(o.Object).(map[string]any)
		}
		return
	case *corev1.Pod:
		s.pod(o)
	}
	if o, ok := object.(Object); ok {
		s.metadata(o)
	}
}

func (s *sharer) metadata(object Object) {
	object.SetNamespace(s.words.one(object.GetNamespace()))
	object.SetLabels(s.texts(object.GetLabels(), true))
	object.SetAnnotations(s.texts(object.GetAnnotations(), false))
	owners := object.GetOwnerReferences()
	for i := range owners {
		owner := &owners[i]
		owner.APIVersion, owner.Kind = s.words.one(owner.APIVersion), s.words.one(owner.Kind)
		owner.Name = s.words.one(owner.Name)
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
}

// texts returns a map with shared keys, and shared values where those are likely to repeat.
func (s *sharer) texts(texts map[string]string, values bool) map[string]string {
	if texts == nil {
		return nil
	}
	shared := make(map[string]string, len(texts))
	for key, value := range texts {
		if values {
			value = s.words.one(value)
		}
		shared[s.words.one(key)] = value
	}
	return shared
}

func (s *sharer) pod(pod *corev1.Pod) {
	spec, status := &pod.Spec, &pod.Status
	for _, text := range []*string{
		&spec.NodeName, &spec.ServiceAccountName, &spec.DeprecatedServiceAccount, &spec.SchedulerName,
		&spec.PriorityClassName, &status.HostIP, (*string)(&spec.RestartPolicy), (*string)(&spec.DNSPolicy), (*string)(&status.Phase),
	} {
		*text = s.words.one(*text)
	}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.Name, c.Image = s.words.one(c.Name), s.words.one(c.Image)
			for j := range c.Env {
				c.Env[j].Name = s.words.one(c.Env[j].Name)
			}
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			c.Name, c.Image, c.ImageID = s.words.one(c.Name), s.words.one(c.Image), s.words.one(c.ImageID)
		}
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		c.Type, c.Reason = corev1.PodConditionType(s.words.one(string(c.Type))), s.words.one(c.Reason)
	}
}

// tree shares the keys of a decoded JSON tree, and its short texts.
func (s *sharer) tree(node any) any {
	switch n := node.(type) {
	case map[string]any:
		shared := make(map[string]any, len(n))
		for key, value := range n {
			shared[s.words.one(key)] = s.tree(value)
		}
		return shared
	case []any:
		for i := range n {
			n[i] = s.tree(n[i])
		}
	case string:
		if len(n) <= 64 {
			return s.words.one(n)
		}
	}
	return node
}
