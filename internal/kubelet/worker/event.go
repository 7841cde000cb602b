package worker

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// event records an event about the pod.
func (t *syncTask) event(kind, reason, format string, args ...any) {
	if t.crew.Record != nil {
		t.crew.Record.Eventf(about(t.pod, ""), kind, reason, format, args...)
	}
}

// eventOf records an event about one of the pod's containers.
func (t *syncTask) eventOf(c *corev1.Container, kind, reason, format string, args ...any) {
	t.crew.eventOf(t.pod, c, kind, reason, format, args...)
}

func (c *Crew) eventOf(pod *corev1.Pod, of *corev1.Container, kind, reason, format string, args ...any) {
	if c.Record == nil {
		return
	}
	list := "ephemeralContainers"
	switch {
	case isInit(pod, of.Name):
		list = "initContainers"
	case find(pod, of.Name) != nil:
		list = "containers"
	}
	c.Record.Eventf(about(pod, fmt.Sprintf("spec.%s{%s}", list, of.Name)), kind, reason, format, args...)
}

func about(pod *corev1.Pod, field string) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: field,
	}
}

// event handles an event of the runtime: the pod is synced.
func (c *Crew) event(uid types.UID) {
	c.mu.Lock()
	key, ok := c.uids[string(uid)]
	c.mu.Unlock()
	if ok {
		c.loop.AddSaying(key, "the runtime told of a container")
	}
}
