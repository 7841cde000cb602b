// Package service says which pods serve for a service, and on which ports. It is
// what the loops for EndpointSlices and for Endpoints have in common.
package service

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// Selects says that the service asks for endpoints made of pods.
func Selects(s *corev1.Service) bool {
	return s.Spec.Selector != nil && s.Spec.Type != corev1.ServiceTypeExternalName
}

// Matches says that the service selects pods with these labels.
func Matches(s *corev1.Service, l map[string]string) bool {
	if !Selects(s) {
		return false
	}
	for key, value := range s.Spec.Selector {
		if got, ok := l[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Pods are the pods that the service selects.
func Pods(pods *informer.Shared[*podview.Pod], s *corev1.Service) []*podview.Pod {
	var out []*podview.Pod
	for pod := range pods.ListNamespace(s.Namespace) {
		if Matches(s, pod.Labels) {
			out = append(out, pod)
		}
	}
	return out
}

// Headless says that clients of the service look for the pods themselves.
func Headless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// Families are the IP families that the service's endpoints have.
func Families(s *corev1.Service) []corev1.IPFamily {
	if len(s.Spec.IPFamilies) > 0 {
		return s.Spec.IPFamilies
	}
	if address, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && address.Is6() {
		return []corev1.IPFamily{corev1.IPv6Protocol}
	}
	return []corev1.IPFamily{corev1.IPv4Protocol}
}

// Address is the pod's address of a family, or nothing.
func Address(pod *podview.Pod, family corev1.IPFamily) string {
	for _, ip := range pod.IPs {
		address, err := netip.ParseAddr(ip)
		if err == nil && (address.Is6() && !address.Is4In6()) == (family == corev1.IPv6Protocol) {
			return ip
		}
	}
	return ""
}

// A Port is a port of a service on one pod.
type Port struct {
	Name        string
	Number      int32
	Protocol    corev1.Protocol
	AppProtocol *string
}

// Ports are the service's ports on a pod. A named port that the pod does not
// have is left out.
func Ports(s *corev1.Service, pod *podview.Pod) []Port {
	var out []Port
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if number, ok := target(p, pod); ok {
			out = append(out, Port{Name: p.Name, Number: number, Protocol: p.Protocol, AppProtocol: p.AppProtocol})
		}
	}
	return out
}

func target(p *corev1.ServicePort, pod *podview.Pod) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		return p.TargetPort.IntVal, true
	}
	// Ports of plain containers go before those of sidecars.
	for _, init := range []bool{false, true} {
		for _, port := range pod.Ports {
			if port.Init == init && port.Name == p.TargetPort.StrVal && port.Protocol == p.Protocol {
				return port.Number, true
			}
		}
	}
	return 0, false
}

// Hostname is the name under which the service's DNS knows the pod alone.
func Hostname(s *corev1.Service, pod *podview.Pod) string {
	if pod.Subdomain == s.Name {
		return pod.Hostname
	}
	return ""
}

// TargetRef is how an endpoint refers to its pod.
func TargetRef(pod *podview.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// Changed says that two states of a pod make different endpoints.
func Changed(before, after *podview.Pod) bool {
	if before == nil || after == nil {
		return true
	}
	return before.UID != after.UID || before.Ready != after.Ready || before.Finished() != after.Finished() ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Node != after.Node || before.Hostname != after.Hostname || before.Subdomain != after.Subdomain ||
		!slices.Equal(before.IPs, after.IPs) || !labels.Equals(before.Labels, after.Labels)
}

// Watch wakes a loop with the services that a change of a pod concerns. The
// more endpoints a service has, the longer changes are gathered.
func Watch(l *loop.Loop, services *informer.Shared[*corev1.Service], pods *informer.Shared[*podview.Pod], pace *Pace) loop.Watch {
	return loop.Changes(pods, func(before, after *podview.Pod) []loop.Key {
		if !Changed(before, after) {
			return nil
		}
		pod := after
		if pod == nil {
			pod = before
		}
		for s := range services.ListNamespace(pod.Namespace) {
			if after != nil && Matches(s, after.Labels) || before != nil && Matches(s, before.Labels) {
				key := informer.KeyOf(s)
				l.AddAfter(key, pace.of(key))
			}
		}
		return nil
	})
}

// A Pace remembers how many endpoints services have: looking at a service costs
// as much as it has pods, so it is looked at less often the more there are.
type Pace struct{ sizes sync.Map }

const (
	paceEach = 20 * time.Microsecond
	paceMost = 200 * time.Millisecond
	few      = 50
)

// Set notes the number of pods of a service.
func (p *Pace) Set(key loop.Key, pods int) { p.sizes.Store(key, pods) }

// Forget drops a service.
func (p *Pace) Forget(key loop.Key) { p.sizes.Delete(key) }

func (p *Pace) of(key loop.Key) time.Duration {
	pods, _ := p.sizes.Load(key)
	if n, _ := pods.(int); n > few {
		return min(time.Duration(n)*paceEach, paceMost)
	}
	return 0
}

// HeadlessLabel marks what belongs to a headless service.
const HeadlessLabel = corev1.IsHeadlessService

// Owner is the reference of an endpoint object to its service.
func Owner(s *corev1.Service) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(s, corev1.SchemeGroupVersion.WithKind("Service"))}
}
