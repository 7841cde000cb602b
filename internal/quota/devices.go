package quota

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ResourceClaims are the kind of claims for devices.
var ResourceClaims = schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}

// IsDevices reports whether a quota's resource counts the devices of a class.
func IsDevices(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
}

// Devices returns how many devices of each class a claim may get: of alternatives the largest number.
func Devices(c *resourcev1.ResourceClaim) map[string]int64 {
	devices := map[string]int64{}
	for i := range c.Spec.Devices.Requests {
		r := &c.Spec.Devices.Requests[i]
		if r.Exactly != nil {
			devices[r.Exactly.DeviceClassName] += devicesOf(r.Exactly.AllocationMode, r.Exactly.Count)
			continue
		}
		most := map[string]int64{}
		for j := range r.FirstAvailable {
			a := &r.FirstAvailable[j]
			most[a.DeviceClassName] = max(most[a.DeviceClassName], devicesOf(a.AllocationMode, a.Count))
		}
		for class, n := range most {
			devices[class] += n
		}
	}
	return devices
}

func devicesOf(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// ResourceClaimUse returns what a resource claim with some devices uses of a quota. resourceOf returns the extended
// resource that a class names, or "": its devices count as that, too. paid is what is already counted for the pod that
// the claim is for.
func ResourceClaimUse(devices map[string]int64, resourceOf func(class string) string, paid corev1.ResourceList) corev1.ResourceList {
	use := Use(ResourceClaims, nil)
	add := func(name corev1.ResourceName, n int64) {
		before := use[name]
		use[name] = *resource.NewQuantity(before.Value()+n, resource.DecimalSI)
	}
	extended := map[corev1.ResourceName]int64{}
	for class, n := range devices {
		add(corev1.ResourceName(class+corev1.ResourceClaimsPerClass), n)
		if name := resourceOf(class); name != "" {
			extended[corev1.ResourceName(corev1.DefaultResourceRequestsPrefix+name)] = n
			extended[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+class)] = n
		}
	}
	for name, n := range extended {
		before := paid[name]
		if n -= before.Value(); n > 0 {
			add(name, n)
		}
	}
	return use
}

// Special is a claim for the extended resources of a pod.
type Special struct {
	Name    string
	Created metav1.Time
	Pod     metav1.OwnerReference
}

// SpecialOf returns what a claim says about its pod, or nil if it is not for extended resources.
func SpecialOf(c *resourcev1.ResourceClaim) *Special {
	owner := metav1.GetControllerOfNoCopy(c)
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return nil
	}
	return &Special{Name: c.Name, Created: c.CreationTimestamp, Pod: *owner}
}

// Before reports whether the claim is older than another one.
func (s *Special) Before(other *Special) bool {
	if !s.Created.Equal(&other.Created) {
		return s.Created.Before(&other.Created)
	}
	return cmp.Less(s.Name, other.Name)
}

// PaidBy reports whether the claim is for what is counted for a pod already. It must be the claim that the pod's status
// names or, while that names none, the pod's first one: a user cannot make more claims for the same pod without paying
// for them.
func (s *Special) PaidBy(pod *corev1.Pod, first bool) bool {
	if pod.UID != s.Pod.UID {
		return false
	}
	if named := pod.Status.ExtendedResourceClaimStatus; named != nil {
		return named.ResourceClaimName == s.Name
	}
	return first
}
