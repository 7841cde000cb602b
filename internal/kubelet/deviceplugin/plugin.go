package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

const (
	// connectTime is how long a plugin may take to accept the connection.
	connectTime = 10 * time.Second
	// callTime bounds each call of a plugin. Other pods wait for their admission meanwhile.
	callTime = 45 * time.Second
	// forgetAfter is how long the devices of a plugin that has gone are counted.
	forgetAfter = 5 * time.Minute
)

// plugin is a plugin that has registered.
type plugin struct {
	api.DevicePluginClient
	resource   corev1.ResourceName
	socket     string
	options    *api.DevicePluginOptions
	connection *grpc.ClientConn
	away       bool // guarded by Plugins.mu
}

// connect makes a plugin that of its resource, and follows its devices.
func (p *Plugins) connect(name corev1.ResourceName, socket string, o *api.DevicePluginOptions) error {
	c, err := plugins.Dial(socket)
	if err != nil {
		return err
	}
	x := &plugin{DevicePluginClient: api.NewDevicePluginClient(c), resource: name, socket: socket, options: o, connection: c}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.Err() != nil {
		return errors.Join(errors.New("the kubelet ends"), c.Close())
	}
	k := p.kinds[name]
	if k == nil {
		k = &kind{}
		p.kinds[name] = k
	}
	if k.plugin != nil {
		k.plugin.connection.Close()
	}
	k.plugin = x
	p.streams.Go(func() { p.follow(x) })
	p.Logger.Info("device plugin registered", "resource", name, "socket", socket)
	return p.saveLocked()
}

// follow takes the devices of a plugin as long as it tells them, and forgets them some time after it has gone.
func (p *Plugins) follow(x *plugin) {
	defer x.connection.Close()
	err := p.read(x)
	if p.life.Err() != nil {
		return
	}
	p.Logger.Warn("device plugin has gone", "resource", x.resource, "err", err)
	p.change(x, func(*kind) { x.away = true })
	timer := time.NewTimer(p.forgetAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		p.change(x, func(k *kind) { k.devices = nil })
	case <-p.life.Done():
	}
}

// read takes lists of devices until the connection ends.
func (p *Plugins) read(x *plugin) error {
	if err := p.reach(x.connection); err != nil {
		return err
	}
	stream, err := x.ListAndWatch(p.life, &api.Empty{})
	if err != nil {
		return err
	}
	for {
		list, err := stream.Recv()
		if err != nil {
			return err
		}
		devices := map[string]*api.Device{}
		for _, d := range list.GetDevices() {
			devices[d.GetID()] = d
		}
		p.change(x, func(k *kind) { k.devices = devices })
	}
}

// reach waits until a connection is there: a plugin may register before it listens.
func (p *Plugins) reach(c *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(p.life, connectTime)
	defer cancel()
	for state := c.GetState(); state != connectivity.Ready; state = c.GetState() {
		if state == connectivity.Shutdown {
			return errors.New("another plugin has registered for the resource")
		}
		c.Connect()
		if !c.WaitForStateChange(ctx, state) {
			return fmt.Errorf("no connection: %w", ctx.Err())
		}
	}
	return nil
}

// change changes what a plugin has told, unless another has taken its place. It tells which pods that affects.
func (p *Plugins) change(x *plugin, do func(*kind)) {
	p.mu.Lock()
	k := p.kinds[x.resource]
	if k == nil || k.plugin != x {
		p.mu.Unlock()
		return
	}
	before := p.healthLocked(x.resource)
	do(k)
	var affected []types.UID
	for i, now := range p.healthLocked(x.resource) {
		if now != before[i] {
			affected = append(affected, now.pod)
		}
	}
	p.mu.Unlock()
	p.Changed()
	if len(affected) > 0 {
		p.Affected(affected)
	}
}

// granted is a device that a container has.
type granted struct {
	pod     types.UID
	id      string
	healthy bool
}

// healthLocked returns the devices of a resource that containers have.
func (p *Plugins) healthLocked(name corev1.ResourceName) []granted {
	var all []granted
	for _, g := range p.grants {
		if g.Resource == name {
			for _, id := range g.Devices {
				all = append(all, granted{g.Pod, id, p.kinds[name].healthy(id)})
			}
		}
	}
	return all
}
