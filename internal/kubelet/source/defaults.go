package source

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

// setDefaults sets the API server's defaults that a kubelet needs.
func setDefaults(pod *corev1.Pod) {
	s := &pod.Spec
	s.RestartPolicy = either(s.RestartPolicy, corev1.RestartPolicyAlways)
	s.DNSPolicy = either(s.DNSPolicy, corev1.DNSClusterFirst)
	s.SchedulerName = either(s.SchedulerName, corev1.DefaultSchedulerName)
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = new(int64(corev1.DefaultTerminationGracePeriodSeconds))
	}
	if s.EnableServiceLinks == nil {
		s.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range s.InitContainers {
		containerDefaults(&s.InitContainers[i], s.HostNetwork)
	}
	for i := range s.Containers {
		containerDefaults(&s.Containers[i], s.HostNetwork)
	}
	for i := range s.Volumes {
		volumeDefaults(&s.Volumes[i])
	}
	pod.Status.QOSClass = demand.QOSClass(&pod.Spec)
}

func either[T ~string](v, otherwise T) T {
	if v == "" {
		return otherwise
	}
	return v
}

func containerDefaults(c *corev1.Container, hostNetwork bool) {
	c.TerminationMessagePath = either(c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	c.TerminationMessagePolicy = either(c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		if !strings.Contains(c.Image, "@") && (!strings.Contains(c.Image[strings.LastIndex(c.Image, "/")+1:], ":") || strings.HasSuffix(c.Image, ":latest")) {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
	for i := range c.Ports {
		c.Ports[i].Protocol = either(c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork && c.Ports[i].HostPort == 0 {
			c.Ports[i].HostPort = c.Ports[i].ContainerPort
		}
	}
	for name, q := range c.Resources.Limits {
		if _, ok := c.Resources.Requests[name]; !ok {
			if c.Resources.Requests == nil {
				c.Resources.Requests = corev1.ResourceList{}
			}
			c.Resources.Requests[name] = q
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			probeDefaults(p)
		}
	}
}

func probeDefaults(p *corev1.Probe) {
	for _, field := range []struct {
		value     *int32
		otherwise int32
	}{{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *field.value == 0 {
			*field.value = field.otherwise
		}
	}
	if p.HTTPGet != nil {
		p.HTTPGet.Path = either(p.HTTPGet.Path, "/")
		p.HTTPGet.Scheme = either(p.HTTPGet.Scheme, corev1.URISchemeHTTP)
	}
}

func volumeDefaults(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil && v.HostPath.Type == nil {
		v.HostPath.Type = new(corev1.HostPathUnset)
	}
}
