// Package apps describes the kinds of the group apps: what keeps pods running.
//
// A selector never changes after a create, so a controller never loses sight of pods that it made. Everything else that
// a user wants of pods may change, except where a stateful set's identity hangs on it.
package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/server/resource"
)

// Kinds are all kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{ControllerRevisions(), DaemonSets(), Deployments(), ReplicaSets(), StatefulSets()}
}

const group, version = appsv1.GroupName, "v1"

// replicasOf points to a number of replicas, making room for it.
func replicasOf(n **int32) *int32 {
	if *n == nil {
		*n = new(int32)
	}
	return *n
}

// selectorText is a selector as scale clients and tables read it.
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
