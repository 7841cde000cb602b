package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/demand"
)

// spare are devices that an earlier container of the pod used and a later one may use, by resource.
type spare map[corev1.ResourceName][]string

func (s spare) add(g *grant) {
	for _, id := range g.Devices {
		if !slices.Contains(s[g.Resource], id) {
			s[g.Resource] = append(s[g.Resource], id)
		}
	}
}

func (s spare) remove(g *grant) {
	s[g.Resource] = slices.DeleteFunc(s[g.Resource], func(id string) bool { return slices.Contains(g.Devices, id) })
}

// Admit gives the containers of a pod their devices. A container that has them keeps them.
func (p *Plugins) Admit(ctx context.Context, pod *corev1.Pod) error {
	p.allocating.Lock()
	defer p.allocating.Unlock()
	left := spare{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		keep := left.add // it ends before the others begin
		if demand.Sidecar(c) {
			keep = left.remove
		}
		if err := p.give(ctx, pod, c, left, keep); err != nil {
			return err
		}
	}
	for i := range pod.Spec.Containers {
		if err := p.give(ctx, pod, &pod.Spec.Containers[i], left, left.remove); err != nil {
			return err
		}
	}
	return nil
}

// give gives a container its devices of all resources, and hands each grant to after.
func (p *Plugins) give(ctx context.Context, pod *corev1.Pod, c *corev1.Container, left spare, after func(*grant)) error {
	for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
		amount := c.Resources.Limits[name]
		if amount.Sign() <= 0 || claimed(pod, c, name) {
			continue
		}
		g, err := p.allocate(ctx, pod.UID, c.Name, name, int(amount.Value()), left[name])
		if err != nil {
			return err
		}
		if g != nil {
			after(g)
		}
	}
	return nil
}

// claimed reports whether a container gets a resource by a resource claim, not from a device plugin.
func claimed(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName) bool {
	s := pod.Status.ExtendedResourceClaimStatus
	return s != nil && slices.ContainsFunc(s.RequestMappings, func(m corev1.ContainerExtendedResourceRequest) bool {
		return m.ContainerName == c.Name && m.ResourceName == string(name)
	})
}

// allocate returns the grant of a container. It is nil for a resource that no plugin has.
func (p *Plugins) allocate(ctx context.Context, pod types.UID, container string, name corev1.ResourceName, amount int, left []string) (*grant, error) {
	x, offer, g, err := p.offer(pod, container, name, amount, left)
	if g != nil || x == nil || err != nil {
		return g, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ids, err := offer.choose(ctx, x, amount)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	answer, err := x.Allocate(ctx, &api.AllocateRequest{ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}})
	p.metrics.allocated(name, time.Since(began))
	if err != nil {
		return nil, err
	}
	if len(answer.GetContainerResponses()) == 0 {
		return nil, fmt.Errorf("no containers return in allocation response %v", answer)
	}
	g = &grant{Pod: pod, Container: container, Resource: name, Devices: ids}
	if g.Answer, err = proto.Marshal(answer.ContainerResponses[0]); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grants = append(p.grants, g)
	if err := p.saveLocked(); err != nil {
		p.grants = p.grants[:len(p.grants)-1]
		return nil, err
	}
	return g, nil
}

// offer is what a container may get: first those devices that it must get, since its pod has them already.
type offer struct {
	own, free []string
}

// offer finds the grant that a container has, or else the plugin to ask and what it has.
func (p *Plugins) offer(pod types.UID, container string, name corev1.ResourceName, amount int, left []string) (*plugin, offer, *grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.kinds[name]
	if k == nil {
		return nil, offer{}, nil, nil
	}
	used := map[string]bool{}
	for _, g := range p.grants {
		if g.Resource != name {
			continue
		}
		if g.Pod == pod && g.Container == container {
			return nil, offer{}, g, nil
		}
		for _, id := range g.Devices {
			used[id] = true
		}
	}
	if k.plugin == nil {
		return nil, offer{}, nil, fmt.Errorf("cannot allocate unregistered device %s", name)
	}
	var o offer
	healthy := 0
	for _, id := range slices.Sorted(maps.Keys(k.devices)) {
		switch {
		case !k.healthy(id):
			continue
		case slices.Contains(left, id):
			o.own = append(o.own, id)
		case !used[id]:
			o.free = append(o.free, id)
		}
		healthy++
	}
	if healthy == 0 {
		return nil, offer{}, nil, fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", name)
	}
	o.own = o.own[:min(len(o.own), amount)]
	if needed := amount - len(o.own); len(o.free) < needed {
		return nil, offer{}, nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", name, needed, len(o.free))
	}
	return k.plugin, o, nil, nil
}

// choose returns as many devices as a container gets: its pod's own, then those that the plugin prefers, then any.
func (o offer) choose(ctx context.Context, x *plugin, amount int) ([]string, error) {
	ids, free := o.own, o.free
	if len(ids) < amount && x.options.GetGetPreferredAllocationAvailable() {
		answer, err := x.GetPreferredAllocation(ctx, &api.PreferredAllocationRequest{ContainerRequests: []*api.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: append(slices.Clone(o.own), o.free...), MustIncludeDeviceIDs: o.own, AllocationSize: int32(amount),
		}}})
		if err != nil {
			return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
		}
		if len(answer.GetContainerResponses()) > 0 {
			for _, id := range answer.ContainerResponses[0].GetDeviceIDs() {
				if i := slices.Index(free, id); i >= 0 && len(ids) < amount {
					ids, free = append(ids, id), slices.Delete(slices.Clone(free), i, i+1)
				}
			}
		}
	}
	return append(ids, free[:amount-len(ids)]...), nil
}

// Release takes a pod's devices back.
func (p *Plugins) Release(pod types.UID) error {
	return p.Sweep(func(uid string) bool { return uid != string(pod) })
}

// Sweep takes back the devices of pods that do not stay.
func (p *Plugins) Sweep(stays func(uid string) bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(p.grants), func(g *grant) bool { return !stays(string(g.Pod)) })
	if len(left) == len(p.grants) {
		return nil
	}
	before := p.grants
	p.grants = left
	if err := p.saveLocked(); err != nil {
		p.grants = before
		return errors.Join(errors.New("devices cannot be taken back"), err)
	}
	return nil
}
