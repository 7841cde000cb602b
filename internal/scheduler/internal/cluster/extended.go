package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/internal/demand"
)

// ExtendedRequest is an extended resource that a container asks for.
type ExtendedRequest struct {
	Resource  corev1.ResourceName
	Count     int64
	Container string
	// At is the container's index among all, of which init containers are the first.
	At int
	// Ends means that the container ends before those after it begin.
	Ends bool
	// Request is the name of the device request for it.
	Request string
}

func extendedOf(spec *corev1.PodSpec) []ExtendedRequest {
	var all []ExtendedRequest
	for i := range spec.InitContainers {
		all = appendExtended(all, &spec.InitContainers[i], i, !demand.Sidecar(&spec.InitContainers[i]))
	}
	for i := range spec.Containers {
		all = appendExtended(all, &spec.Containers[i], len(spec.InitContainers)+i, false)
	}
	return all
}

func appendExtended(all []ExtendedRequest, c *corev1.Container, at int, ends bool) []ExtendedRequest {
	for i, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
		amount := c.Resources.Requests[name]
		if count, whole := amount.AsInt64(); whole && count > 0 && IsExtended(name) {
			all = append(all, ExtendedRequest{
				Resource: name, Count: count, Container: c.Name, At: at, Ends: ends, Request: fmt.Sprintf("container-%d-request-%d", at, i),
			})
		}
	}
	return all
}

// IsExtended reports whether devices may stand for a resource: it is not one of Kubernetes' own, or it is that of a
// device class.
func IsExtended(name corev1.ResourceName) bool {
	text := string(name)
	if strings.HasPrefix(text, resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	return strings.Contains(text, "/") && !strings.Contains(text, corev1.ResourceDefaultNamespacePrefix) &&
		!strings.HasPrefix(text, corev1.DefaultResourceRequestsPrefix)
}
