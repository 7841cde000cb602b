package cri

import (
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// RunSandbox makes a sandbox.
func (r *Runtime) RunSandbox(ctx context.Context, spec *container.SandboxSpec) (string, error) {
	users, err := usersOf(spec)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*r.RequestTime)
	defer cancel()
	if spec.LogDirectory != "" {
		if err := os.MkdirAll(spec.LogDirectory, 0o755); err != nil {
			return "", fmt.Errorf("make the directory for logs: %w", err)
		}
	}
	if err := r.able(ctx, spec); err != nil {
		return "", err
	}
	answer, err := r.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: r.sandboxConfig(spec, users), RuntimeHandler: spec.Handler})
	if err != nil {
		return "", err
	}
	return answer.PodSandboxId, nil
}

// able returns why the runtime cannot make a sandbox as the pod needs it.
func (r *Runtime) able(ctx context.Context, spec *container.SandboxSpec) error {
	s, err := r.status(ctx)
	if err != nil {
		return err
	}
	problem, network := conditions(s)
	if problem != "" { // the runtime cannot say whether there is a network
		return errors.New(problem)
	}
	if network != "" && !spec.Pod.Spec.HostNetwork {
		return &container.NetworkNotReady{Problem: network}
	}
	if strictGroups(spec.Pod) && !s.GetFeatures().GetSupplementalGroupsPolicy() {
		return errors.New("the container runtime does not support supplementalGroupsPolicy Strict, and would add the groups of the image")
	}
	return usersProblem(s, spec)
}

func strictGroups(pod *corev1.Pod) bool {
	sc := pod.Spec.SecurityContext
	return sc != nil && sc.SupplementalGroupsPolicy != nil && *sc.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict
}

func (r *Runtime) sandboxConfig(spec *container.SandboxSpec, users *runtimeapi.UserNamespace) *runtimeapi.PodSandboxConfig {
	pod := spec.Pod
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: spec.Attempt},
		LogDirectory: spec.LogDirectory,
		Labels:       podLabels(pod.Namespace, pod.Name, pod.UID),
		Annotations:  pod.Annotations,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: r.CgroupParent, SecurityContext: sandboxSecurity(pod, users)},
	}
	if !pod.Spec.HostNetwork {
		config.Hostname = spec.Hostname
		for i := range pod.Spec.Containers {
			config.PortMappings = append(config.PortMappings, ports(&pod.Spec.Containers[i])...)
		}
	}
	if spec.DNS != nil {
		config.DnsConfig = &runtimeapi.DNSConfig{Servers: spec.DNS.Servers, Searches: spec.DNS.Searches, Options: spec.DNS.Options}
	}
	if sc := pod.Spec.SecurityContext; sc != nil && len(sc.Sysctls) > 0 {
		config.Linux.Sysctls = map[string]string{}
		for _, s := range sc.Sysctls {
			config.Linux.Sysctls[s.Name] = s.Value
		}
	}
	return config
}

func ports(c *corev1.Container) []*runtimeapi.PortMapping {
	var all []*runtimeapi.PortMapping
	for _, p := range c.Ports {
		if p.HostPort == 0 {
			continue
		}
		m := &runtimeapi.PortMapping{ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP}
		switch p.Protocol {
		case corev1.ProtocolUDP:
			m.Protocol = runtimeapi.Protocol_UDP
		case corev1.ProtocolSCTP:
			m.Protocol = runtimeapi.Protocol_SCTP
		}
		all = append(all, m)
	}
	return all
}

// StopSandbox stops a sandbox and all containers in it.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	_, err := r.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return ignoreMissing(err)
}

// RemoveSandbox forgets a sandbox.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.RequestTime)
	defer cancel()
	_, err := r.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return ignoreMissing(err)
}
