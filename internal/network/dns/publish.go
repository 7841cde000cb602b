package dns

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// The service that pods use, with its usual namespace and name.
const (
	publicNamespace = "kube-system"
	publicName      = "kube-dns"
)

// Publication is the service by which pods find a Server.
type Publication struct {
	Clients *loop.Clients
	// Service is the cluster IP that kubelets write into the pods' resolv.conf.
	Service netip.Addr
	// Node is the name of the server's node, and Server the address and port on which it listens there.
	Node   string
	Server netip.AddrPort
}

// Publish maintains the Service kube-dns and an EndpointSlice with the server's address. If there is a kube-dns with a
// selector, which is not ours, nothing is written.
func Publish(p Publication) (loop.Runner, error) {
	if p.Server.Addr().IsLoopback() || p.Server.Addr().IsLinkLocalUnicast() {
		return nil, errors.New("pods cannot reach a DNS server that listens on a loopback or link-local address")
	}
	r := &publisher{Publication: p, kube: p.Clients.Kube}
	paged := watchlist.DoesClientNotSupportWatchListSemantics(p.Clients.Kube)
	r.services = informer.Share(p.Clients.Informers, informer.For(r.kube.CoreV1().Services(publicNamespace)), informer.Options[*corev1.Service]{
		Name: "kube-dns", Logger: p.Clients.Log, DisableStreaming: paged, FieldSelector: metav1.ObjectNameField + "=" + publicName,
	})
	r.slices = informer.Share(p.Clients.Informers, informer.For(r.kube.DiscoveryV1().EndpointSlices(publicNamespace)), informer.Options[*discoveryv1.EndpointSlice]{
		Name: "kube-dns slice", Logger: p.Clients.Log, DisableStreaming: paged, FieldSelector: metav1.ObjectNameField + "=" + r.sliceName(),
	})
	key := loop.Key{Namespace: publicNamespace, Name: publicName}
	return &loop.Loop{
		Name: "kube-dns", Clients: p.Clients, Sync: r.sync, Start: []loop.Key{key},
		Watches: []loop.Watch{
			loop.Mapped(r.services, func(*corev1.Service) []loop.Key { return []loop.Key{key} }),
			loop.Mapped(r.slices, func(*discoveryv1.EndpointSlice) []loop.Key { return []loop.Key{key} }),
		},
	}, nil
}

type publisher struct {
	Publication
	kube     kubernetes.Interface
	services *informer.Shared[*corev1.Service]
	slices   *informer.Shared[*discoveryv1.EndpointSlice]
}

func (r *publisher) sliceName() string { return publicName + "-" + r.Node }

func (r *publisher) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	s, ok := r.services.Lookup(key)
	if !ok {
		s, err := r.kube.CoreV1().Services(publicNamespace).Create(ctx, r.service(), metav1.CreateOptions{})
		if err == nil {
			loop.Wrote(ctx, r.services, s.ResourceVersion)
		}
		return loop.Result{}, err
	}
	if len(s.Spec.Selector) > 0 {
		return loop.Result{}, nil
	}
	return loop.Result{}, r.slice(ctx, key)
}

func (r *publisher) slice(ctx context.Context, key loop.Key) error {
	want := r.endpoints()
	have, ok := r.slices.Get(publicNamespace, want.Name)
	var err error
	switch client := r.kube.DiscoveryV1().EndpointSlices(publicNamespace); {
	case !ok:
		have, err = client.Create(ctx, want, metav1.CreateOptions{})
	case equality.Semantic.DeepEqual(have.Endpoints, want.Endpoints) && equality.Semantic.DeepEqual(have.Ports, want.Ports) && equality.Semantic.DeepDerivative(want.Labels, have.Labels):
		return nil
	default:
		want.ResourceVersion = have.ResourceVersion // fail if it has changed since it was read
		have, err = client.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err == nil {
		loop.Wrote(ctx, r.slices, have.ResourceVersion)
	}
	return err
}

func (r *publisher) service() *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: publicNamespace, Name: publicName, Labels: map[string]string{
		"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
	}}}
	s.Spec.ClusterIP = r.Service.String()
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: publicPort(protocol), Protocol: protocol, Port: 53})
	}
	return s
}

// publicPort is the usual name of the service's port.
func publicPort(p corev1.Protocol) string {
	if p == corev1.ProtocolUDP {
		return "dns"
	}
	return "dns-tcp"
}

func (r *publisher) endpoints() *discoveryv1.EndpointSlice {
	ready, number := true, int32(r.Server.Port())
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: publicNamespace, Name: r.sliceName(), Labels: map[string]string{
			discoveryv1.LabelServiceName: publicName, discoveryv1.LabelManagedBy: "dns.millrace",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{r.Server.Addr().String()}, NodeName: &r.Node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	if r.Server.Addr().Is6() {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		name := publicPort(protocol)
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &protocol})
	}
	return s
}
