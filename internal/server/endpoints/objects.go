package endpoints

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	name      = "kubernetes"
	namespace = metav1.NamespaceDefault
	portName  = "https"
	// servicePort is the port of the Service.
	servicePort = 443
)

// Service returns the Service "kubernetes" with its own cluster IP. The servers listen on port.
func Service(address netip.Addr, port int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: address.String(), ClusterIPs: []string{address.String()},
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports:           []corev1.ServicePort{{Name: portName, Port: servicePort, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt(port)}},
		},
	}
}

// reconcileService creates the Service, or repairs its ports and type.
func (r *Reconciler) reconcileService(ctx context.Context) error {
	wanted := Service(r.o.ServiceIP, int(r.o.Address.Port()))
	found, err := r.core.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = r.core.Services(namespace).Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil || found.Spec.Type == wanted.Spec.Type && equality.Semantic.DeepEqual(found.Spec.Ports, wanted.Spec.Ports) {
		return err
	}
	found.Spec.Type, found.Spec.Ports = wanted.Spec.Type, wanted.Spec.Ports
	_, err = r.core.Services(namespace).Update(ctx, found, metav1.UpdateOptions{})
	return err
}

func (r *Reconciler) reconcileEndpoints(ctx context.Context, servers []netip.Addr) error {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: portName, Port: int32(r.o.Address.Port()), Protocol: corev1.ProtocolTCP}}}
	for _, s := range servers {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: s.String()})
	}
	wanted := []corev1.EndpointSubset{subset}
	found, err := r.core.Endpoints(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// The label keeps the endpointslice mirroring controller from making a second slice.
		e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}}, Subsets: wanted}
		_, err = r.core.Endpoints(namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	}
	if err != nil || equality.Semantic.DeepEqual(found.Subsets, wanted) && found.Labels[discoveryv1.LabelSkipMirror] == "true" {
		return err
	}
	found.Subsets = wanted
	metav1.SetMetaDataLabel(&found.ObjectMeta, discoveryv1.LabelSkipMirror, "true")
	_, err = r.core.Endpoints(namespace).Update(ctx, found, metav1.UpdateOptions{})
	return err
}

// slice returns the EndpointSlice. It contains the servers of this server's address family.
func (r *Reconciler) slice(servers []netip.Addr) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(r.o.Address.Port())), Protocol: new(corev1.ProtocolTCP)}},
	}
	if r.o.Address.Addr().Is6() {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, a := range servers {
		if a.Is4() == r.o.Address.Addr().Is4() {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
		}
	}
	return s
}

func (r *Reconciler) reconcileSlice(ctx context.Context, servers []netip.Addr) error {
	api := r.discovery.EndpointSlices(namespace)
	wanted := r.slice(servers)
	found, err := api.Get(ctx, name, metav1.GetOptions{})
	if err == nil && found.AddressType != wanted.AddressType { // the field is immutable, so the slice is made again
		if err := api.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		err = apierrors.NewNotFound(discoveryv1.Resource("endpointslices"), name)
	}
	if apierrors.IsNotFound(err) {
		_, err = api.Create(ctx, wanted, metav1.CreateOptions{})
		return err
	}
	if err != nil || sameSlice(found, wanted) {
		return err
	}
	found.Endpoints, found.Ports = wanted.Endpoints, wanted.Ports
	metav1.SetMetaDataLabel(&found.ObjectMeta, discoveryv1.LabelServiceName, name)
	_, err = api.Update(ctx, found, metav1.UpdateOptions{})
	return err
}

func sameSlice(found, wanted *discoveryv1.EndpointSlice) bool {
	return found.Labels[discoveryv1.LabelServiceName] == name && equality.Semantic.DeepEqual(found.Ports, wanted.Ports) &&
		slices.EqualFunc(found.Endpoints, wanted.Endpoints, func(a, b discoveryv1.Endpoint) bool { return equality.Semantic.DeepEqual(a, b) })
}
