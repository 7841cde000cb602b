package deviceplugin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// Furnish adds what a container gets with its devices to its specification, and tells the plugins that it starts.
func (p *Plugins) Furnish(ctx context.Context, spec *container.Spec) error {
	grants, err := p.of(ctx, spec.Pod, spec.Container)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if err := p.starts(ctx, g); err != nil {
			return err
		}
		a, err := g.answer()
		if err != nil {
			return err
		}
		add(spec, a)
	}
	return nil
}

// of returns the grants of a container. A pod that was admitted before its devices were counted, by another kubelet,
// gets them now.
func (p *Plugins) of(ctx context.Context, pod *corev1.Pod, c *corev1.Container) ([]*grant, error) {
	if len(c.Resources.Limits) == 0 {
		return nil, nil
	}
	p.allocating.Lock()
	defer p.allocating.Unlock()
	var all []*grant
	err := p.give(ctx, pod, c, spare{}, func(g *grant) { all = append(all, g) })
	return all, err
}

// starts tells a plugin that a container starts, if it wants to know.
func (p *Plugins) starts(ctx context.Context, g *grant) error {
	p.mu.Lock()
	x := p.kinds[g.Resource].plugin
	p.mu.Unlock()
	if x == nil {
		return fmt.Errorf("endpoint not found in cache for a registered resource: %s", g.Resource)
	}
	if !x.options.GetPreStartRequired() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if _, err := x.PreStartContainer(ctx, &api.PreStartContainerRequest{DevicesIds: g.Devices}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}

// add adds a plugin's answer to a specification. What the pod says itself stays.
func add(spec *container.Spec, a *api.ContainerAllocateResponse) {
	for _, name := range slices.Sorted(maps.Keys(a.GetEnvs())) {
		if !slices.ContainsFunc(spec.Env, func(v container.Variable) bool { return v.Name == name }) {
			spec.Env = append(spec.Env, container.Variable{Name: name, Value: a.Envs[name]})
		}
	}
	for _, m := range a.GetMounts() {
		if !slices.ContainsFunc(spec.Mounts, func(x container.Mount) bool { return x.Container == m.GetContainerPath() }) {
			spec.Mounts = append(spec.Mounts, container.Mount{Container: m.GetContainerPath(), Host: m.GetHostPath(), ReadOnly: m.GetReadOnly()})
		}
	}
	for _, d := range a.GetDevices() {
		if !slices.ContainsFunc(spec.Nodes, func(x container.DeviceNode) bool { return x.Container == d.GetContainerPath() }) {
			spec.Nodes = append(spec.Nodes, container.DeviceNode{Container: d.GetContainerPath(), Host: d.GetHostPath(), Permissions: d.GetPermissions()})
		}
	}
	for name, value := range a.GetAnnotations() {
		if spec.Annotations == nil {
			spec.Annotations = map[string]string{}
		}
		spec.Annotations[name] = value
	}
	for _, d := range a.GetCdiDevices() {
		if !slices.Contains(spec.Devices, d.GetName()) {
			spec.Devices = append(spec.Devices, d.GetName())
		}
	}
}

// Health returns the health of a container's devices, as a container's status has it.
func (p *Plugins) Health(pod types.UID, name string) []corev1.ResourceStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []corev1.ResourceStatus
	for _, g := range p.grants {
		if g.Pod != pod || g.Container != name {
			continue
		}
		s := corev1.ResourceStatus{Name: g.Resource}
		for _, id := range g.Devices {
			h := corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: corev1.ResourceHealthStatusHealthy}
			// Until a plugin is back after a restart of the kubelet, nothing is known against its devices.
			if k := p.kinds[g.Resource]; k.plugin != nil && !k.healthy(id) {
				h.Health = corev1.ResourceHealthStatusUnhealthy
			}
			s.Resources = append(s.Resources, h)
		}
		all = append(all, s)
	}
	return all
}

// Of returns the devices of a container, by resource. A device that its plugin no longer has is only an ID.
func (p *Plugins) Of(pod types.UID, name string) map[corev1.ResourceName][]*api.Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[corev1.ResourceName][]*api.Device{}
	for _, g := range p.grants {
		if g.Pod != pod || g.Container != name {
			continue
		}
		for _, id := range g.Devices {
			d := p.kinds[g.Resource].devices[id]
			if d == nil {
				d = &api.Device{ID: id}
			}
			all[g.Resource] = append(all[g.Resource], d)
		}
	}
	return all
}
