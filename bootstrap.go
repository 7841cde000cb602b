package millrace

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/version"

	"github.com/millrace/millrace/server/allocation"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/resource"
	"github.com/millrace/millrace/server/resource/scheduling"
)

// bootstrap makes what every cluster has: its namespaces, its priority classes, and the service through which pods find the API
// at an address. Without one nobody will find it there.
func bootstrap(ctx context.Context, r *registry.Registry, serviceRange, at string) error {
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if err := ensure(ctx, r, schema.GroupResource{Resource: "namespaces"}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, class := range scheduling.SystemClasses() {
		if err := ensure(ctx, r, schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}, class); err != nil {
			return err
		}
	}
	address, err := firstAddress(serviceRange)
	if err != nil {
		return err
	}
	if at == "" {
		at = net.JoinHostPort("127.0.0.1", "6443")
	}
	host, text, err := net.SplitHostPort(at)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	if err := ensure(ctx, r, schema.GroupResource{Resource: "services"}, apiService(address, port)); err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); err != nil || ip.IsLoopback() || ip.IsUnspecified() {
		return nil // endpoints may not be loopback addresses: nobody else could reach the API there
	}
	return ensure(ctx, r, schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, apiEndpoints(host, int32(port)))
}

func apiService(address string, port int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default", Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: address, ClusterIPs: []string{address},
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt(port)}},
		},
	}
}

func apiEndpoints(host string, port int32) *discoveryv1.EndpointSlice {
	name, tcp, ready := "https", corev1.ProtocolTCP, true
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{host}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}
}

// ensure creates an object unless it exists.
func ensure(ctx context.Context, r *registry.Registry, gr schema.GroupResource, o resource.Object) error {
	k, ok := r.Catalogue.Kind(gr)
	if !ok {
		return fmt.Errorf("there is no kind %v", gr)
	}
	storage, err := r.Storage(k)
	if err != nil {
		return err
	}
	if _, err := storage.Get(ctx, o.GetNamespace(), o.GetName(), registry.Freshness{Any: true}); err == nil {
		return nil
	}
	k.Default(o)
	_, err = storage.Create(ctx, o.GetNamespace(), o, registry.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %v %s: %w", gr, o.GetName(), err)
	}
	return nil
}

// firstAddress is the first usable one of the (first) service range: the API's service has it.
func firstAddress(serviceRange string) (string, error) {
	ranges, err := allocation.ParseRanges(serviceRange)
	if err != nil {
		return "", err
	}
	return ranges[0].Addr().Next().String(), nil
}

// Version is the Kubernetes version that the API is that of.
func Version() version.Info {
	return version.Info{
		Major: "1", Minor: "37", GitVersion: "v1.37.0+millrace", GitTreeState: "clean", GoVersion: runtime.Version(),
		Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1", MinCompatibilityMinor: "36",
	}
}

func errorLog(l *slog.Logger) *log.Logger { return slog.NewLogLogger(l.Handler(), slog.LevelDebug) }
