package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Names of resources without a prefix.
var standardResources = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceRequestsEphemeralStorage,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceLimitsEphemeralStorage,
	corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
	corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceStorage, corev1.ResourceRequestsStorage,
	corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
}

func isStandard(name corev1.ResourceName) bool {
	return slices.Contains(standardResources, name) || isHugePages(name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
}

func isContainerResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || isHugePages(name)
}

// isNative reports whether a resource belongs to Kubernetes and is not an extended one.
func isNative(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

func isExtended(name corev1.ResourceName) bool {
	return !isNative(name) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) &&
		qualifiedName(corev1.DefaultResourceRequestsPrefix+string(name)) == nil
}

func (f *findings) resourceName(p fieldPath, name corev1.ResourceName) {
	if isContainerResource(name) && !isHugePages(name) {
		return
	}
	messages := qualifiedName(string(name))
	f.invalidAll(p, string(name), messages)
	if strings.Contains(string(name), "/") {
		if !isNative(name) && !isExtended(name) {
			f.invalid(p, string(name), "doesn't follow extended resource name standard")
		}
		return
	}
	if messages == nil && !isStandard(name) {
		f.invalid(p, string(name), notStandard)
	}
	if !isContainerResource(name) {
		f.invalid(p, string(name), "must be a standard resource for containers")
	}
}

const notStandard = "must be a standard resource type or fully qualified"

func (f *findings) quantity(p fieldPath, name corev1.ResourceName, q resource.Quantity) {
	if q.Sign() < 0 {
		f.invalid(p, q.String(), "must be greater than or equal to 0")
	}
	if !isContainerResource(name) && IsIntegerResource(name) && q.MilliValue()%1000 != 0 {
		f.invalid(p, &q, "must be an integer")
	}
}

// inOrder returns the names in the order in which errors are reported.
func inOrder(list corev1.ResourceList) []corev1.ResourceName {
	if len(list) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(list))
}

func (x *examiner) resources(p fieldPath, r *corev1.ResourceRequirements) {
	if len(r.Limits) == 0 && len(r.Requests) == 0 && len(r.Claims) == 0 {
		return
	}
	at := p.child("resources")
	x.requirements(at, r, false)
	x.resourceClaimNames(at, r.Claims)
}

// requirements validates the resources of a container or, if whole is set, of the pod.
func (x *examiner) requirements(p fieldPath, r *corev1.ResourceRequirements, whole bool) {
	limits, requests := p.child("limits"), p.child("requests")
	huge, compute := false, false
	for _, name := range inOrder(r.Limits) {
		k := limits.keyed(string(name))
		x.nameOfResource(k, name, whole)
		x.quantity(k, name, r.Limits[name])
		x.hugePages(k, name, r.Limits[name])
		huge = huge || isHugePages(name)
		compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	for _, name := range inOrder(r.Requests) {
		q := r.Requests[name]
		k := requests.keyed(string(name))
		x.nameOfResource(k, name, whole)
		x.quantity(k, name, q)
		huge = huge || isHugePages(name)
		compute = compute || name == corev1.ResourceCPU || name == corev1.ResourceMemory
		limit, limited := r.Limits[name]
		mayDiffer := isNative(name) && !isHugePages(name)
		switch {
		case limited && !mayDiffer && q.Cmp(limit) != 0:
			x.invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String()))
		case limited && q.Cmp(limit) > 0:
			x.invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String()))
		case !limited && !mayDiffer:
			x.required(limits, "Limit must be set for non overcommitable resources")
		}
		x.hugePages(k, name, q)
	}
	if huge && !compute {
		x.forbidden(p, "HugePages require cpu or memory")
	}
}

func (x *examiner) nameOfResource(p fieldPath, name corev1.ResourceName, whole bool) {
	if whole {
		x.podResourceName(p, name)
	} else {
		x.resourceName(p, name)
	}
}

func (x *examiner) hugePages(p fieldPath, name corev1.ResourceName, q resource.Quantity) {
	if !isHugePages(name) {
		return
	}
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	if err != nil || size.Sign() <= 0 || size.MilliValue()%1000 != 0 || q.MilliValue()%size.MilliValue() != 0 {
		x.invalid(p, q.String(), fmt.Sprintf("%s is not positive integer multiple of %s", q.String(), name))
	}
}

// IsIntegerResource reports whether amounts of a resource must be integers.
func IsIntegerResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return false
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return isExtended(name)
}
