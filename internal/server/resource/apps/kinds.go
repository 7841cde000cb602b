// Package apps describes the kinds of the group apps.
//
// A selector never changes after a create, so a controller always finds the pods that it made. All other fields of the
// pods may change, except for those on which a stateful set's identity depends.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{ControllerRevisions(), DaemonSets(), Deployments(), ReplicaSets(), StatefulSets()}
}

const group, version = appsv1.GroupName, "v1"

// replicasOf returns a pointer to a number of replicas, and allocates it if needed.
func replicasOf(n **int32) *int32 {
	if *n == nil {
		*n = new(int32)
	}
	return *n
}

// selectorText formats a selector for scale clients and tables.
func selectorText(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return selector.String()
}

func valueOf(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
