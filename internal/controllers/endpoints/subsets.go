package endpoints

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/internal/service"
	"github.com/millrace/millrace/internal/controllers/podview"
)

// maxAddresses is the maximum number of addresses in an Endpoints object.
const maxAddresses = 1000

// podAddress is the address of one pod. Two pods may have the same address.
type podAddress struct {
	uid     types.UID
	ip      string
	ready   bool
	address corev1.EndpointAddress
}

// portGroup is a port with the addresses that have it.
type portGroup struct {
	port      corev1.EndpointPort
	addresses map[types.UID]podAddress
}

// subsets returns the Service's endpoints in canonical form: ports with the same addresses are in one subset.
func subsets(s *corev1.Service, pods []*podview.Pod) []corev1.EndpointSubset {
	groups := map[string]*portGroup{}
	for _, pod := range pods {
		p, ok := podAddressOf(s, pod)
		if !ok {
			continue
		}
		for _, port := range portsOf(s, pod) {
			text := portText(port)
			if groups[text] == nil {
				groups[text] = &portGroup{port: port, addresses: map[types.UID]podAddress{}}
			}
			groups[text].addresses[p.uid] = p
		}
	}
	alike := map[string][]*portGroup{}
	for _, d := range groups {
		text := addressesText(d.addresses)
		alike[text] = append(alike[text], d)
	}
	var out []corev1.EndpointSubset
	for _, text := range slices.Sorted(maps.Keys(alike)) {
		out = append(out, subset(alike[text]))
	}
	return out
}

// podAddressOf returns the pod's address in the Service, if it has one.
func podAddressOf(s *corev1.Service, pod *podview.Pod) (podAddress, bool) {
	ip := service.Address(pod, service.Families(s)[0])
	leaving := pod.DeletionTimestamp != nil && !s.Spec.PublishNotReadyAddresses
	if ip == "" || leaving || pod.Finished() {
		return podAddress{}, false
	}
	p := podAddress{uid: pod.UID, ip: ip, ready: pod.Ready || s.Spec.PublishNotReadyAddresses}
	p.address = corev1.EndpointAddress{IP: ip, Hostname: service.Hostname(s, pod), TargetRef: service.TargetRef(pod)}
	if pod.Node != "" {
		p.address.NodeName = &pod.Node
	}
	return p, true
}

// portsOf returns the ports of a pod. A headless Service without ports still has addresses, under an empty port.
func portsOf(s *corev1.Service, pod *podview.Pod) []corev1.EndpointPort {
	var out []corev1.EndpointPort
	for _, p := range service.Ports(s, pod) {
		out = append(out, corev1.EndpointPort{Name: p.Name, Port: p.Number, Protocol: p.Protocol, AppProtocol: p.AppProtocol})
	}
	if len(s.Spec.Ports) == 0 && service.Headless(s) {
		out = []corev1.EndpointPort{{}}
	}
	return out
}

func portText(p corev1.EndpointPort) string {
	app := ""
	if p.AppProtocol != nil {
		app = *p.AppProtocol
	}
	return fmt.Sprintf("%s/%s/%d/%s", p.Name, p.Protocol, p.Port, app)
}

func addressesText(addresses map[types.UID]podAddress) string {
	var b strings.Builder
	for _, p := range slices.SortedFunc(maps.Values(addresses), compareAddresses) {
		fmt.Fprintf(&b, "%s/%s/%t ", p.ip, p.uid, p.ready)
	}
	return b.String()
}

func compareAddresses(a, b podAddress) int {
	return cmp.Or(cmp.Compare(a.ip, b.ip), cmp.Compare(a.uid, b.uid))
}

func subset(groups []*portGroup) corev1.EndpointSubset {
	var out corev1.EndpointSubset
	for _, d := range groups {
		if d.port != (corev1.EndpointPort{}) {
			out.Ports = append(out.Ports, d.port)
		}
	}
	slices.SortFunc(out.Ports, func(a, b corev1.EndpointPort) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol))
	})
	for _, p := range slices.SortedFunc(maps.Values(groups[0].addresses), compareAddresses) {
		if p.ready {
			out.Addresses = append(out.Addresses, p.address)
		} else {
			out.NotReadyAddresses = append(out.NotReadyAddresses, p.address)
		}
	}
	return out
}

// truncate removes addresses beyond the maximum, ready ones last, and reports whether it has removed any.
func truncate(all []corev1.EndpointSubset) bool {
	ready, rest := 0, 0
	for _, s := range all {
		ready += len(s.Addresses)
		rest += len(s.NotReadyAddresses)
	}
	if ready+rest <= maxAddresses {
		return false
	}
	readyRoom, restRoom := share(all, min(ready, maxAddresses), func(s *corev1.EndpointSubset) int { return len(s.Addresses) }),
		share(all, max(0, maxAddresses-ready), func(s *corev1.EndpointSubset) int { return len(s.NotReadyAddresses) })
	for i := range all {
		all[i].Addresses = all[i].Addresses[:readyRoom[i]]
		all[i].NotReadyAddresses = all[i].NotReadyAddresses[:restRoom[i]]
	}
	return true
}

// share distributes the available addresses among subsets, in proportion.
func share(all []corev1.EndpointSubset, room int, count func(*corev1.EndpointSubset) int) []int {
	total := 0
	for i := range all {
		total += count(&all[i])
	}
	out := make([]int, len(all))
	if total == 0 {
		return out
	}
	left := min(room, total)
	for i := range all {
		out[i] = count(&all[i]) * min(room, total) / total
		left -= out[i]
	}
	for i := range all { // the rounding difference
		n := min(left, count(&all[i])-out[i])
		out[i] += n
		left -= n
	}
	return out
}
