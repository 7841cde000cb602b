package furnish

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// serviceEnv adds the environment variables for services.
func (f *Furnisher) serviceEnv(e *environment, pod *corev1.Pod) {
	if f.Services == nil {
		return
	}
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	for _, s := range f.Services(corev1.NamespaceDefault) {
		if s.Name == "kubernetes" {
			describe(e, s)
		}
	}
	if !links {
		return
	}
	for _, s := range f.Services(pod.Namespace) {
		describe(e, s)
	}
}

func describe(e *environment, s *corev1.Service) {
	ip := s.Spec.ClusterIP
	if ip == "" || ip == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return
	}
	prefix := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
	e.set(prefix+"_SERVICE_HOST", ip)
	e.set(prefix+"_SERVICE_PORT", strconv.Itoa(int(s.Spec.Ports[0].Port)))
	for _, p := range s.Spec.Ports {
		if p.Name != "" {
			e.set(prefix+"_SERVICE_PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_")), strconv.Itoa(int(p.Port)))
		}
	}
	for i, p := range s.Spec.Ports {
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		port := strconv.Itoa(int(p.Port))
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			e.set(prefix+"_PORT", url)
		}
		base := fmt.Sprintf("%s_PORT_%s_%s", prefix, port, strings.ToUpper(protocol))
		e.set(base, url)
		e.set(base+"_PROTO", strings.ToLower(protocol))
		e.set(base+"_PORT", port)
		e.set(base+"_ADDR", ip)
	}
}

func sortedKeys(data map[string][]byte) []string { return slices.Sorted(maps.Keys(data)) }
