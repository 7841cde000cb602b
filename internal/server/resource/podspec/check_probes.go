package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (x *examiner) probes(p fieldPath, c *corev1.Container) {
	if c.LivenessProbe != nil {
		at := p.child("livenessProbe")
		x.probe(at, c.LivenessProbe)
		x.onlyOneSuccess(at, c.LivenessProbe)
	}
	if c.ReadinessProbe != nil {
		at := p.child("readinessProbe")
		x.probe(at, c.ReadinessProbe)
		if c.ReadinessProbe.TerminationGracePeriodSeconds != nil {
			x.invalid(at.child("terminationGracePeriodSeconds"), *c.ReadinessProbe.TerminationGracePeriodSeconds, "must not be set for readinessProbes")
		}
	}
	if c.StartupProbe != nil {
		at := p.child("startupProbe")
		x.probe(at, c.StartupProbe)
		x.onlyOneSuccess(at, c.StartupProbe)
	}
}

func (x *examiner) onlyOneSuccess(p fieldPath, probe *corev1.Probe) {
	if probe.SuccessThreshold != 1 {
		x.invalid(p.child("successThreshold"), probe.SuccessThreshold, "must be 1")
	}
}

func (x *examiner) probe(p fieldPath, probe *corev1.Probe) {
	x.handler(p, probe.Exec, probe.HTTPGet, probe.TCPSocket, probe.GRPC, nil)
	x.nonNegative(p, "initialDelaySeconds", int64(probe.InitialDelaySeconds))
	x.nonNegative(p, "timeoutSeconds", int64(probe.TimeoutSeconds))
	x.nonNegative(p, "periodSeconds", int64(probe.PeriodSeconds))
	x.nonNegative(p, "successThreshold", int64(probe.SuccessThreshold))
	x.nonNegative(p, "failureThreshold", int64(probe.FailureThreshold))
	if g := probe.TerminationGracePeriodSeconds; g != nil && *g <= 0 {
		x.invalid(p.child("terminationGracePeriodSeconds"), *g, "must be greater than 0")
	}
}

func (x *examiner) lifecycle(p fieldPath, l *corev1.Lifecycle) {
	if l == nil {
		return
	}
	lifecycle := p.child("lifecycle")
	if h := l.PostStart; h != nil {
		x.handler(lifecycle.child("postStart"), h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep)
	}
	if h := l.PreStop; h != nil {
		x.handler(lifecycle.child("preStop"), h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep)
	}
	if l.StopSignal != nil {
		if x.spec.OS == nil || x.spec.OS.Name == "" {
			x.forbidden(lifecycle.child("stopSignal"), "may not be set for containers with empty `spec.os.name`")
		}
	}
}

func (x *examiner) handler(p fieldPath, exec *corev1.ExecAction, get *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction, grpc *corev1.GRPCAction, sleep *corev1.SleepAction) {
	one := &choice{findings: &x.findings, of: &p, excess: "may not specify more than 1 handler type"}
	if exec != nil {
		if c, first := one.open("exec"); first && len(exec.Command) == 0 {
			x.requireText(c, "command", "")
		}
	}
	if get != nil {
		if c, first := one.open("httpGet"); first {
			x.httpGet(c, get)
		}
	}
	if tcp != nil {
		if c, first := one.open("tcpSocket"); first {
			x.portNumberOrName(c.child("port"), tcp.Port)
		}
	}
	if grpc != nil {
		if c, first := one.open("grpc"); first {
			x.portNumber(c.child("port"), grpc.Port)
			if grpc.Mode != nil {
				oneOf(&x.findings, c.child("mode"), *grpc.Mode, corev1.GRPCProbeModePlaintext, corev1.GRPCProbeModeTLS)
			}
		}
	}
	if sleep != nil {
		if c, first := one.open("sleep"); first {
			x.sleep(c, sleep.Seconds)
		}
	}
	if one.n == 0 {
		x.required(p, "must specify a handler type")
	}
}

func (x *examiner) httpGet(p fieldPath, g *corev1.HTTPGetAction) {
	x.requireText(p, "path", g.Path)
	x.portNumberOrName(p.child("port"), g.Port)
	if g.Scheme != corev1.URISchemeHTTP && g.Scheme != corev1.URISchemeHTTPS {
		oneOf(&x.findings, p.child("scheme"), g.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS)
	}
	if g.Protocol != nil {
		c := p.child("protocol")
		known := oneOf(&x.findings, c, *g.Protocol, corev1.HTTPProtocolHTTP1, corev1.HTTPProtocolHTTP2)
		if known && *g.Protocol == corev1.HTTPProtocolHTTP2 && g.Scheme != corev1.URISchemeHTTP {
			x.invalid(c, *g.Protocol, "may only be used with scheme HTTP")
		}
	}
	for i := range g.HTTPHeaders {
		if messages := validation.IsHTTPHeaderName(g.HTTPHeaders[i].Name); messages != nil {
			x.invalidAll(p.child("httpHeaders"), g.HTTPHeaders[i].Name, messages)
		}
	}
}

func (x *examiner) sleep(p fieldPath, seconds int64) {
	grace := DefaultGracePeriod
	if x.spec.TerminationGracePeriodSeconds != nil {
		grace = *x.spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 || seconds > grace {
		x.invalid(p, seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", grace))
	}
}
