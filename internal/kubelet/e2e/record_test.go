package e2e

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Eventf notes an event.
func (s *stage) Eventf(_ runtime.Object, _, reason, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, reason+": "+fmt.Sprintf(format, args...))
}

// told reports whether an event of that reason was recorded.
func (s *stage) told(reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.events, func(e string) bool { return strings.HasPrefix(e, reason+":") })
}

func in(phase corev1.PodPhase) func(*corev1.PodStatus) bool {
	return func(s *corev1.PodStatus) bool { return s.Phase == phase }
}

func condition(s *corev1.PodStatus, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func ready(s *corev1.PodStatus) bool { return condition(s, corev1.PodReady) == corev1.ConditionTrue }

func of(s *corev1.PodStatus, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return &corev1.ContainerStatus{}
}
