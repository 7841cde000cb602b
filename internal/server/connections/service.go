package connections

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/registry"
)

// endpoint returns a random ready address behind a service. The port is a name or a number of a service port; empty is
// the port without a name.
func (c *Connections) endpoint(q request, name, port string) (host string, err error) {
	service, err := find[*corev1.Service](q.ctx, c, "services", q.target.Namespace, name)
	if err != nil {
		return "", err
	}
	if number, err := strconv.ParseInt(port, 10, 32); err == nil {
		at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
		if at < 0 {
			return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
		}
		port = service.Spec.Ports[at].Name
	}
	all, err := c.endpoints(q, name)
	if err != nil {
		return "", err
	}
	var ready []podEndpoint
	for _, slice := range all {
		ready = append(ready, readyEndpoints(slice, port)...)
	}
	for _, at := range rand.Perm(len(ready)) {
		if c.isPodsAddress(q, ready[at]) {
			return net.JoinHostPort(ready[at].address, strconv.Itoa(int(ready[at].port))), nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", q.target.Name))
}

func (c *Connections) endpoints(q request, service string) ([]*discoveryv1.EndpointSlice, error) {
	kind, ok := c.o.Registry.Catalogue.Kind(schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"})
	if !ok {
		return nil, fmt.Errorf("endpointslices are not served")
	}
	storage, err := c.o.Registry.Storage(kind)
	if err != nil {
		return nil, err
	}
	selector := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service})
	list, err := storage.List(q.ctx, registry.ListQuery{Selection: registry.Select(kind.Faces[0], q.target.Namespace, "", selector, nil)})
	if err != nil {
		return nil, err
	}
	var out []*discoveryv1.EndpointSlice
	for _, o := range list.Objects {
		decoded, err := kind.Decode(q.ctx, o.Value(), o.Revision.String())
		if err != nil {
			return nil, err
		}
		out = append(out, decoded.(*discoveryv1.EndpointSlice))
	}
	return out, nil
}

// podEndpoint is an address of a pod, as a slice names it.
type podEndpoint struct {
	address string
	port    int32
	pod     *corev1.ObjectReference
}

// readyEndpoints returns the ready endpoints of a slice.
func readyEndpoints(slice *discoveryv1.EndpointSlice, port string) []podEndpoint {
	at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
	})
	if at < 0 {
		return nil
	}
	var out []podEndpoint
	for _, e := range slice.Endpoints {
		if ready := e.Conditions.Ready; (ready == nil || *ready) && len(e.Addresses) > 0 {
			out = append(out, podEndpoint{e.Addresses[0], *slice.Ports[at].Port, e.TargetRef})
		}
	}
	return out
}

// isPodsAddress reports whether the address is really that of the pod which the slice names. Otherwise a user who may
// write slices could reach addresses that only the server can reach.
func (c *Connections) isPodsAddress(q request, e podEndpoint) bool {
	if e.pod == nil || e.pod.Kind != "Pod" || e.pod.Namespace != q.target.Namespace || allowed(e.address) != nil {
		return false
	}
	pod, err := find[*corev1.Pod](q.ctx, c, "pods", e.pod.Namespace, e.pod.Name)
	return err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == e.address })
}
