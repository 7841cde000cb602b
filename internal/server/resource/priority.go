package resource

import "k8s.io/apimachinery/pkg/runtime/schema"

// Priority says how much a group, and a version within it, is preferred to others.
type Priority struct{ Group, Version int32 }

// DefinedPriority is the priority of custom resources.
var DefinedPriority = Priority{1000, 100}

// groupPriorities are Kubernetes' priorities.
var groupPriorities = map[string]int32{
	"": 18000, "apiregistration.k8s.io": 20000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700,
	"authorization.k8s.io": 17600, "autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200,
	"policy": 17100, "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "admissionregistration.k8s.io": 16700,
	"apiextensions.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
	"discovery.k8s.io": 16200, "resource.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100, "storagemigration.k8s.io": 15800,
}

// versionPriorities are those that differ from usualVersionPriority.
var versionPriorities = map[schema.GroupVersion]int32{
	{Version: "v1"}: 1, {Group: "autoscaling", Version: "v2"}: 30,
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: 21, {Group: "resource.k8s.io", Version: "v1"}: 21,
}

const usualVersionPriority = 15

// PriorityOf returns the priority of a group version, whether it belongs to Kubernetes or not.
func PriorityOf(gv schema.GroupVersion) Priority {
	group, known := groupPriorities[gv.Group]
	if !known {
		return DefinedPriority
	}
	p := Priority{group, usualVersionPriority}
	if v, differs := versionPriorities[gv]; differs {
		p.Version = v
	}
	return p
}
