package allocation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/store"
)

func needsNodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
}

// allocatesNodePorts reports whether ports without a node port get one.
func allocatesNodePorts(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeNodePort ||
		s.Type == corev1.ServiceTypeLoadBalancer && (s.AllocateLoadBalancerNodePorts == nil || *s.AllocateLoadBalancerNodePorts)
}

func needsHealthCheck(s *corev1.ServiceSpec) bool {
	return s.Type == corev1.ServiceTypeLoadBalancer && s.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// portsOf returns the node ports that a service has.
func portsOf(s *corev1.Service) []int32 {
	var out []int32
	if needsNodePorts(&s.Spec) {
		for _, p := range s.Spec.Ports {
			if p.NodePort != 0 {
				out = append(out, p.NodePort)
			}
		}
	}
	if needsHealthCheck(&s.Spec) && s.Spec.HealthCheckNodePort != 0 {
		out = append(out, s.Spec.HealthCheckNodePort)
	}
	return out
}

// takePorts allocates the node ports that the service needs and does not have.
func (c *change) takePorts(ctx context.Context) error {
	if !needsNodePorts(&c.svc.Spec) {
		return nil
	}
	var had []int32
	if c.old != nil {
		had = portsOf(c.old)
	}
	spec := &c.svc.Spec
	var plan portPlan
	err := c.ports.change(ctx, c.dryRun, func(s *portSet) error {
		plan = portPlan{portSet: s, ports: slices.Clone(spec.Ports), health: spec.HealthCheckNodePort, had: had}
		if err := plan.takeAll(c.old != nil, allocatesNodePorts(spec)); err != nil {
			return err
		}
		if !needsHealthCheck(spec) {
			return nil
		}
		return plan.takeHealth(c.old != nil && needsHealthCheck(&c.old.Spec))
	})
	if err != nil {
		if !c.dryRun {
			c.counted.portError(err)
		}
		return c.refusal(err)
	}
	spec.Ports, spec.HealthCheckNodePort = plan.ports, plan.health
	if !c.dryRun {
		c.nodePorts = plan.took
		c.counted.ports.WithLabelValues(static).Add(float64(plan.chosen))
		c.counted.ports.WithLabelValues(dynamic).Add(float64(len(plan.took) - plan.chosen))
	}
	return nil
}

func (c *change) refusal(err error) error {
	var wrong *field.Error
	switch {
	case errors.As(err, &wrong):
		return c.invalid(wrong)
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable(err.Error())
	}
	return apierrors.NewInternalError(err)
}

// portPlan are the ports that a service is to have.
type portPlan struct {
	*portSet
	ports  []corev1.ServicePort
	health int32
	had    []int32
	took   []int32
	chosen int // how many of those the client has chosen
}

func (p *portPlan) takeOne(port int32) error {
	if err := p.take(port); err != nil {
		return err
	}
	p.took = append(p.took, port)
	p.chosen++
	return nil
}

func (p *portPlan) takeFree() (int32, error) {
	port, err := p.takeAny()
	if err == nil {
		p.took = append(p.took, port)
	}
	return port, err
}

// takeAll allocates the node ports in the order of the ports. When a service is created, the same port with several
// protocols gets one node port.
func (p *portPlan) takeAll(update, gives bool) error {
	shared := map[int32]int32{}
	for i := range p.ports {
		port := &p.ports[i]
		if port.NodePort == 0 && !gives {
			continue
		}
		if !update {
			if err := p.share(i, shared); err != nil {
				return err
			}
			continue
		}
		switch {
		case port.NodePort == 0:
			n, err := p.takeFree()
			if err != nil {
				return fmt.Errorf("failed to allocate a nodePort: %w", err)
			}
			port.NodePort = n
		case !slices.Contains(p.had, port.NodePort) && !slices.Contains(p.took, port.NodePort):
			if err := p.takeOne(port.NodePort); err != nil {
				return portError(i, port.NodePort, err)
			}
		}
	}
	return nil
}

// share gives a new service's port the node port of the same port with another protocol, or allocates one.
func (p *portPlan) share(i int, shared map[int32]int32) error {
	port := &p.ports[i]
	if n := shared[port.Port]; n != 0 {
		switch port.NodePort {
		case n:
		case 0:
			port.NodePort = n
		default:
			if err := p.takeOne(port.NodePort); err != nil {
				return portError(i, port.NodePort, err)
			}
		}
		return nil
	}
	if n := p.wantedFor(port.Port); n != 0 {
		if err := p.takeOne(n); err != nil {
			return portError(i, n, err)
		}
		port.NodePort = n
	} else {
		n, err := p.takeFree()
		if err != nil {
			return fmt.Errorf("failed to allocate a nodePort: %w", err)
		}
		port.NodePort = n
	}
	shared[port.Port] = port.NodePort
	return nil
}

func (p *portPlan) wantedFor(port int32) int32 {
	for _, other := range p.ports {
		if other.Port == port && other.NodePort != 0 {
			return other.NodePort
		}
	}
	return 0
}

func portError(i int, port int32, err error) error {
	return field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error())
}

// takeHealth allocates the health check node port.
func (p *portPlan) takeHealth(had bool) (err error) {
	switch {
	case had && slices.Contains(p.had, p.health):
		return nil
	case had && p.health != 0:
		return field.Invalid(field.NewPath("spec", "healthCheckNodePort"), p.health, "field is immutable")
	case p.health != 0:
		if err := p.takeOne(p.health); err != nil {
			return fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", p.health, err)
		}
		return nil
	}
	if p.health, err = p.takeFree(); err != nil {
		return fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", p.health, err)
	}
	return nil
}
