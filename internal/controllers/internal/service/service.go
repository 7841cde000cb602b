// Package service decides which pods are endpoints of a Service, and on which ports, for the loops of EndpointSlices
// and of Endpoints.
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

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// Selects reports whether the Service has endpoints made from pods.
func Selects(s *corev1.Service) bool {
	return s.Spec.Selector != nil && s.Spec.Type != corev1.ServiceTypeExternalName
}

// Matches reports whether the Service selects pods with these labels.
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

// Pods returns the pods that the Service selects.
func Pods(pods *informer.Shared[*podview.Pod], s *corev1.Service) []*podview.Pod {
	var out []*podview.Pod
	for pod := range pods.ListNamespace(s.Namespace) {
		if Matches(s, pod.Labels) {
			out = append(out, pod)
		}
	}
	return out
}

// Headless reports whether the Service has no cluster IP.
func Headless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// Families returns the IP families of the Service's endpoints.
func Families(s *corev1.Service) []corev1.IPFamily {
	if len(s.Spec.IPFamilies) > 0 {
		return s.Spec.IPFamilies
	}
	if address, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && address.Is6() {
		return []corev1.IPFamily{corev1.IPv6Protocol}
	}
	return []corev1.IPFamily{corev1.IPv4Protocol}
}

// Address returns the pod's address of a family, or "".
func Address(pod *podview.Pod, family corev1.IPFamily) string {
	for _, ip := range pod.IPs {
		address, err := netip.ParseAddr(ip)
		if err == nil && (address.Is6() && !address.Is4In6()) == (family == corev1.IPv6Protocol) {
			return ip
		}
	}
	return ""
}

// Port is a port of a Service on one pod.
type Port struct {
	Name        string
	Number      int32
	Protocol    corev1.Protocol
	AppProtocol *string
}

// Ports returns the Service's ports on a pod. A named port that the pod does not have is left out.
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
	// Ports of ordinary containers have precedence over those of sidecars.
	for _, init := range []bool{false, true} {
		for _, port := range pod.Ports {
			if port.Init == init && port.Name == p.TargetPort.StrVal && port.Protocol == p.Protocol {
				return port.Number, true
			}
		}
	}
	return 0, false
}

// Hostname returns the pod's own name in the Service's DNS.
func Hostname(s *corev1.Service, pod *podview.Pod) string {
	if pod.Subdomain == s.Name {
		return pod.Hostname
	}
	return ""
}

// TargetRef returns an endpoint's reference to its pod.
func TargetRef(pod *podview.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// Changed reports whether two states of a pod give different endpoints.
func Changed(before, after *podview.Pod) bool {
	if before == nil || after == nil {
		return true
	}
	return before.UID != after.UID || before.Ready != after.Ready || before.Finished() != after.Finished() ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		before.Node != after.Node || before.Hostname != after.Hostname || before.Subdomain != after.Subdomain ||
		!slices.Equal(before.IPs, after.IPs) || !labels.Equals(before.Labels, after.Labels)
}

// Watch wakes a loop with the Services that a change of a pod concerns. The more endpoints a Service has, the longer it
// waits for more changes.
func Watch(services *informer.Shared[*corev1.Service], pods *informer.Shared[*podview.Pod], pace *Pace) loop.Watch {
	return loop.Changes(pods, func(before, after *podview.Pod) (keys []loop.Key) {
		if !Changed(before, after) {
			return nil
		}
		pod := after
		if pod == nil {
			pod = before
		}
		for s := range services.ListNamespace(pod.Namespace) {
			if after != nil && Matches(s, after.Labels) || before != nil && Matches(s, before.Labels) {
				keys = append(keys, informer.KeyOf(s))
			}
		}
		return keys
	}).Paced(pace.of)
}

// Pace remembers how many endpoints Services have. The cost of a sync is proportional to that, so large Services are
// synced less often.
type Pace struct{ sizes sync.Map }

const (
	paceEach = 20 * time.Microsecond
	paceMost = 200 * time.Millisecond
	few      = 50
)

// Set stores the number of pods of a Service.
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

// HeadlessLabel marks objects of a headless Service.
const HeadlessLabel = corev1.IsHeadlessService

// Owner returns the owner reference to a Service.
func Owner(s *corev1.Service) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(s, corev1.SchemeGroupVersion.WithKind("Service"))}
}
