package devices

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Of are the names of the CDI devices that a container gets, each once, in the order in which it asks for them.
func (d *Devices) Of(pod *corev1.Pod, c *corev1.Container) []string {
	var names []string
	add := func(claim, request string) {
		for _, name := range d.devicesOf(pod.Namespace, claim, request) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, asked := range c.Resources.Claims {
		for i := range pod.Spec.ResourceClaims {
			if pod.Spec.ResourceClaims[i].Name != asked.Name {
				continue
			}
			if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
				add(*name, asked.Request)
			}
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		for _, m := range s.RequestMappings {
			if m.ContainerName == c.Name {
				add(s.ResourceClaimName, m.RequestName)
			}
		}
	}
	return names
}

// devicesOf are the CDI devices of a claim, or of one of its requests.
func (d *Devices) devicesOf(namespace, name, request string) []string {
	c := d.named(namespace, name)
	if c == nil {
		return nil
	}
	var names []string
	for _, driver := range slices.Sorted(maps.Keys(c.Drivers)) {
		if c.Drivers[driver] == nil {
			continue
		}
		for _, x := range c.Drivers[driver].Devices {
			if request == "" || len(x.Requests) == 0 || slices.ContainsFunc(x.Requests, func(r string) bool { return isOf(r, request) }) {
				names = append(names, x.CDI...)
			}
		}
	}
	return names
}

// isOf tells whether a request is another one, or an alternative of it.
func isOf(request, of string) bool {
	main, _, _ := strings.Cut(request, "/")
	return main == of
}
