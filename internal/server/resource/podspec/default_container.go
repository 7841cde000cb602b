package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = pullPolicy(c.Image)
	}
	orElse(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	orElse(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		orElse(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		defaultSource(c.Env[i].ValueFrom)
	}
	defaultResources(&c.Resources)
	defaultProbe(c.LivenessProbe)
	defaultProbe(c.ReadinessProbe)
	defaultProbe(c.StartupProbe)
	if c.Lifecycle != nil {
		defaultHandler(c.Lifecycle.PostStart)
		defaultHandler(c.Lifecycle.PreStop)
	}
}

func defaultSource(s *corev1.EnvVarSource) {
	if s == nil {
		return
	}
	if s.FieldRef != nil {
		orElse(&s.FieldRef.APIVersion, fieldsOfThisVersion)
	}
	if s.FileKeyRef != nil {
		orNew(&s.FileKeyRef.Optional, false)
	}
}

func defaultProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	defaultGet(p.HTTPGet)
	if p.GRPC != nil {
		orNew(&p.GRPC.Service, "")
	}
	orElse(&p.TimeoutSeconds, 1)
	orElse(&p.PeriodSeconds, 10)
	orElse(&p.SuccessThreshold, 1)
	orElse(&p.FailureThreshold, 3)
}

func defaultHandler(h *corev1.LifecycleHandler) {
	if h != nil {
		defaultGet(h.HTTPGet)
	}
}

func defaultGet(g *corev1.HTTPGetAction) {
	if g != nil {
		orElse(&g.Path, "/")
		orElse(&g.Scheme, corev1.URISchemeHTTP)
	}
}
