package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (w *warnings) containers(containers []corev1.Container, name string) {
	for i := range containers {
		c := &containers[i]
		at := func() *field.Path { return w.spec.Child(name).Index(i) }
		for _, r := range [...]corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			w.fractions(c.Resources.Limits, r, func() *field.Path { return at().Child("resources", "limits") })
			w.fractions(c.Resources.Requests, r, func() *field.Path { return at().Child("resources", "requests") })
		}
		var names seen[string]
		for j := range c.Env {
			// A duplicate variable may extend the previous one with the same name.
			if e := &c.Env[j]; !names.add(e.Name) && !strings.Contains(e.Value, "$("+e.Name+")") {
				w.say(at().Child("env").Index(j), "hides previous definition of %q, which may be dropped when using apply", e.Name)
			}
		}
	}
}

// fractions warns about fractions of bytes.
func (w *warnings) fractions(list corev1.ResourceList, name corev1.ResourceName, at func() *field.Path) {
	if q, set := list[name]; set && q.MilliValue()%1000 != 0 {
		w.say(at().Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
	}
}

// ClaimWarnings returns the warnings for the spec of a claim.
func ClaimWarnings(s *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var w warnings
	w.fractions(s.Resources.Requests, corev1.ResourceStorage, func() *field.Path { return path.Child("requests") })
	w.fractions(s.Resources.Limits, corev1.ResourceStorage, func() *field.Path { return path.Child("limits") })
	return w.said
}

// exposed is a port and its place.
type exposed struct {
	port      *corev1.ContainerPort
	list      string
	container int
	index     int
}

func (e exposed) at(spec *field.Path) *field.Path {
	return spec.Child(e.list).Index(e.container).Child("ports").Index(e.index)
}

// ports warns about ports that are, or may be, the same.
func (w *warnings) ports(s *corev1.PodSpec) {
	var before []exposed
	look := func(list string, containers []corev1.Container) {
		for i := range containers {
			for j := range containers[i].Ports {
				e := exposed{&containers[i].Ports[j], list, i, j}
				if p := e.port; p.HostIP != "" && p.HostPort == 0 {
					w.say(e.at(w.spec), "hostIP set without hostPort: {Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}",
						p.Name, p.HostPort, p.ContainerPort, p.Protocol, p.HostIP)
				}
				for _, b := range before {
					w.samePort(e, b)
				}
				before = append(before, e)
			}
		}
	}
	look("initContainers", s.InitContainers)
	look("containers", s.Containers)
}

func (w *warnings) samePort(e, b exposed) {
	p, q, word := e.port, b.port, ""
	switch {
	case p.ContainerPort != q.ContainerPort || p.Protocol != q.Protocol:
		return
	case p.HostPort == q.HostPort && p.HostIP == q.HostIP:
		word = "duplicate"
	case p.HostPort == 0 || q.HostPort == 0:
		word = "overlapping"
	case p.HostPort == q.HostPort && (p.HostIP == "" || q.HostIP == ""):
		word = "dangerously ambiguous"
	default:
		return
	}
	w.said = append(w.said, fmt.Sprintf("%s: %s port definition with %s", e.at(w.spec), word, b.at(w.spec)))
}
