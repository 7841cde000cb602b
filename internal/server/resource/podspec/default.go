package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

// Defaults of a spec.
const (
	DefaultGracePeriod        = int64(30)
	defaultMode         int32 = 0o644
	defaultTokenSeconds int64 = 60 * 60

	fieldsOfThisVersion = "v1"
)

// DefaultTemplate sets the defaults of a template. A template gets fewer defaults than a pod: those that depend on
// other values are set in the pods made from it.
func DefaultTemplate(t *corev1.PodTemplateSpec) {
	dropInitAnnotations(t.Annotations)
	defaultSpec(&t.Spec)
}

// Default sets the defaults of a pod.
func Default(p *corev1.Pod) {
	dropInitAnnotations(p.Annotations)
	defaultSpec(&p.Spec)
	s := &p.Spec
	for i := range s.Containers {
		requestLimits(&s.Containers[i].Resources)
	}
	for i := range s.InitContainers {
		requestLimits(&s.InitContainers[i].Resources)
	}
	defaultPodResources(s)
	if s.EnableServiceLinks == nil {
		s.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	if s.HostNetwork {
		defaultHostPorts(s.Containers)
		defaultHostPorts(s.InitContainers)
	}
	for i := range p.Status.ContainerStatuses {
		roundUp(p.Status.ContainerStatuses[i].AllocatedResources)
	}
	if ips := p.Status.PodIPs; len(ips) == 0 && p.Status.PodIP != "" {
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	} else if len(ips) > 0 && p.Status.PodIP == "" {
		p.Status.PodIP = ips[0].IP
	}
}

// dropInitAnnotations removes the annotations that held init containers before there was a field.
func dropInitAnnotations(a map[string]string) {
	if len(a) == 0 {
		return
	}
	delete(a, "pod.beta.kubernetes.io/init-containers")
	delete(a, "pod.alpha.kubernetes.io/init-containers")
	delete(a, "pod.beta.kubernetes.io/init-container-statuses")
	delete(a, "pod.alpha.kubernetes.io/init-container-statuses")
}

func defaultSpec(s *corev1.PodSpec) {
	for i := range s.Volumes {
		defaultVolume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		defaultContainer(&s.InitContainers[i])
	}
	for i := range s.Containers {
		defaultContainer(&s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		// An ephemeral container has the same fields as a container.
		defaultContainer((*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	orElse(&s.RestartPolicy, corev1.RestartPolicyAlways)
	orElse(&s.DNSPolicy, corev1.DNSClusterFirst)
	orElse(&s.SchedulerName, corev1.DefaultSchedulerName)
	orNew(&s.TerminationGracePeriodSeconds, DefaultGracePeriod)
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
	roundUp(s.Overhead)
	if s.Resources != nil {
		defaultResources(s.Resources)
	}
}

func defaultHostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			if p := &containers[i].Ports[j]; p.HostPort == 0 {
				p.HostPort = p.ContainerPort
			}
		}
	}
}

func orElse[T comparable](v *T, otherwise T) {
	var zero T
	if *v == zero {
		*v = otherwise
	}
}

func orNew[T any](v **T, otherwise T) {
	if *v == nil {
		*v = &otherwise
	}
}
