package devices

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Of are the names of the CDI devices that a container gets, each once, in the order in which it asks for them.
func (d *Devices) Of(pod *corev1.Pod, c *corev1.Container) []string {
	var names []string
	d.each(pod, c, func(claim, request string) {
		for _, name := range d.devicesOf(pod.Namespace, claim, request) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	})
	return names
}

// each calls do for each claim, or request of a claim, that a container asks for.
func (*Devices) each(pod *corev1.Pod, c *corev1.Container, do func(claim, request string)) {
	for _, asked := range c.Resources.Claims {
		for i := range pod.Spec.ResourceClaims {
			if pod.Spec.ResourceClaims[i].Name != asked.Name {
				continue
			}
			if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
				do(*name, asked.Request)
			}
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		for _, m := range s.RequestMappings {
			if m.ContainerName == c.Name {
				do(s.ResourceClaimName, m.RequestName)
			}
		}
	}
}

// devicesOf are the CDI devices of a claim, or of one of its requests.
func (d *Devices) devicesOf(namespace, name, request string) []string {
	var names []string
	for _, x := range d.devicesFor(namespace, name, request) {
		names = append(names, x.CDI...)
	}
	return names
}

// prepared is a device that a driver has prepared.
type prepared struct {
	device
	driver string
}

// devicesFor returns the devices of a claim, or of one of its requests.
func (d *Devices) devicesFor(namespace, name, request string) []prepared {
	c := d.named(namespace, name)
	if c == nil {
		return nil
	}
	var all []prepared
	for _, driver := range slices.Sorted(maps.Keys(c.Drivers)) {
		if c.Drivers[driver] == nil {
			continue
		}
		for _, x := range c.Drivers[driver].Devices {
			if request == "" || len(x.Requests) == 0 || slices.ContainsFunc(x.Requests, func(r string) bool { return isOf(r, request) }) {
				all = append(all, prepared{x, driver})
			}
		}
	}
	return all
}

// Resources returns the devices that a container has by the pod's claims, by claim.
func (d *Devices) Resources(pod *corev1.Pod, c *corev1.Container) []*podresources.DynamicResource {
	var all []*podresources.DynamicResource
	add := func(claim, request string) {
		r := &podresources.DynamicResource{ClaimName: claim, ClaimNamespace: pod.Namespace}
		for _, x := range d.devicesFor(pod.Namespace, claim, request) {
			one := &podresources.ClaimResource{DriverName: x.driver, PoolName: x.Pool, DeviceName: x.Name, ShareId: x.Share}
			for _, name := range x.CDI {
				one.CdiDevices = append(one.CdiDevices, &podresources.CDIDevice{Name: name})
			}
			r.ClaimResources = append(r.ClaimResources, one)
		}
		all = append(all, r)
	}
	d.each(pod, c, add)
	return all
}

// isOf tells whether a request is another one, or an alternative of it.
func isOf(request, of string) bool {
	main, _, _ := strings.Cut(request, "/")
	return main == of
}
