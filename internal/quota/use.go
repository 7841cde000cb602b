// Package quota computes what objects use of a ResourceQuota, for the admission plugin that charges quotas and for the
// control loop that counts existing objects.
//
// Its functions read only their arguments, so both get the same result for the same object.
package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/demand"
)

var one = *resource.NewQuantity(1, resource.DecimalSI)

// counted maps resources that have a quota name of their own besides count/….
var counted = map[string]corev1.ResourceName{
	"configmaps": corev1.ResourceConfigMaps, "secrets": corev1.ResourceSecrets, "services": corev1.ResourceServices,
	"persistentvolumeclaims": corev1.ResourcePersistentVolumeClaims, "replicationcontrollers": corev1.ResourceReplicationControllers,
	"resourcequotas": corev1.ResourceQuotas,
}

// Use returns what an object uses of a quota.
func Use(r schema.GroupResource, o any) corev1.ResourceList {
	count := "count/" + r.Resource
	if r.Group != "" {
		count += "." + r.Group
	}
	use := corev1.ResourceList{corev1.ResourceName(count): one}
	if r.Group != "" {
		return use
	}
	if name, ok := counted[r.Resource]; ok {
		use[name] = one
	}
	switch o := o.(type) {
	case *corev1.Pod:
		addPodUsage(use, o)
	case *corev1.Service:
		addServiceUsage(use, &o.Spec)
	case *corev1.PersistentVolumeClaim:
		addClaimUsage(use, o)
	}
	return use
}

// addPodUsage adds what a pod uses until it has ended.
func addPodUsage(use corev1.ResourceList, pod *corev1.Pod) {
	if demand.Finished(pod.Status.Phase) {
		return
	}
	use[corev1.ResourcePods] = one
	for name, q := range demand.RequestList(pod) {
		if plain(name) {
			use[name] = q
		}
		use["requests."+name] = q
	}
	for name, q := range demand.LimitList(pod) {
		if isCompute(name) {
			use["limits."+name] = q
		}
	}
}

func isCompute(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// plain reports whether the requests of a resource are also counted under its plain name: cpu as well as requests.cpu.
func plain(name corev1.ResourceName) bool {
	return isCompute(name) || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func addServiceUsage(use corev1.ResourceList, spec *corev1.ServiceSpec) {
	ports := int64(0)
	switch spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		use[corev1.ResourceServicesLoadBalancers] = one
		ports = int64(len(spec.Ports))
		if gives := spec.AllocateLoadBalancerNodePorts; gives != nil && !*gives {
			ports = 0
			for _, p := range spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	}
	use[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
	if _, balanced := use[corev1.ResourceServicesLoadBalancers]; !balanced {
		use[corev1.ResourceServicesLoadBalancers] = *resource.NewQuantity(0, resource.DecimalSI)
	}
}

const ofClass = ".storageclass.storage.k8s.io/"

func addClaimUsage(use corev1.ResourceList, c *corev1.PersistentVolumeClaim) {
	class := corev1.ResourceName(StorageClass(c))
	if class != "" {
		use[class+ofClass+"persistentvolumeclaims"] = one
	}
	if size, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
		use[corev1.ResourceRequestsStorage] = size
		if class != "" {
			use[class+ofClass+"requests.storage"] = size
		}
	}
}

// StorageClass returns the name of the storage class of a claim; empty if it has none.
func StorageClass(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}
