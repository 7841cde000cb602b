package deviceplugin

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

// SocketName is the socket where plugins register.
const SocketName = "kubelet.sock"

// Options say where plugins register, and who is told of their devices. Only Directory is required.
type Options struct {
	// Directory has the sockets of the kubelet and of the plugins.
	Directory string
	// Changed is called when the number of devices, or of healthy ones, has changed. It must not block.
	Changed func()
	// Affected is called with pods when the health of their devices has changed. It must not block.
	Affected func(pods []types.UID)
	Logger   *slog.Logger
}

// Plugins are the device plugins of one node. They are a loop.Runner, and the handler of plugins of the type
// DevicePlugin.
type Plugins struct {
	Options
	metrics     metrics
	forgetAfter time.Duration

	allocating sync.Mutex // held while devices are chosen; taken before mu
	mu         sync.Mutex // guards what follows, and the file that says the same
	kinds      map[corev1.ResourceName]*kind
	grants     []*grant

	life    context.Context // ends with Run
	end     context.CancelFunc
	streams sync.WaitGroup // of plugins
}

// kind is a resource and its devices.
type kind struct {
	devices map[string]*api.Device
	// plugin is the one that registered last. It is nil until one has registered with this kubelet.
	plugin *plugin
}

// healthy reports whether a device can be used.
func (k *kind) healthy(id string) bool {
	d := k.devices[id]
	return d != nil && d.Health == api.Healthy && k.plugin != nil && !k.plugin.away
}

// New makes the Plugins of a node, and reads what containers were given.
func New(o Options) (*Plugins, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Affected == nil {
		o.Affected = func([]types.UID) {}
	}
	if err := os.MkdirAll(o.Directory, 0o750); err != nil {
		return nil, err
	}
	p := &Plugins{Options: o, metrics: newMetrics(), forgetAfter: forgetAfter, kinds: map[corev1.ResourceName]*kind{}}
	p.life, p.end = context.WithCancel(context.Background())
	if err := p.load(); err != nil {
		return nil, err
	}
	return p, nil
}

// Run lets plugins register until ctx ends.
func (p *Plugins) Run(ctx context.Context) error {
	defer p.streams.Wait()
	defer p.end()
	err := p.removeSockets()
	if err == nil {
		err = plugins.Serve(ctx, filepath.Join(p.Directory, SocketName), func(r grpc.ServiceRegistrar) { api.RegisterRegistrationServer(r, registrar{plugins: p}) })
	}
	if err != nil && ctx.Err() == nil { // pods without devices run all the same
		p.Logger.Error("device plugins cannot register", "err", err)
		<-ctx.Done()
	}
	return nil
}

// removeSockets removes the sockets of earlier lives: a plugin registers again when it sees that its own has gone.
func (p *Plugins) removeSockets() error {
	entries, err := os.ReadDir(p.Directory)
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			err = errors.Join(err, os.Remove(filepath.Join(p.Directory, e.Name())))
		}
	}
	return err
}

// Amounts returns the number of devices of each resource, and how many of them are not healthy.
func (p *Plugins) Amounts() (all, unhealthy corev1.ResourceList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, unhealthy = corev1.ResourceList{}, corev1.ResourceList{}
	for name, k := range p.kinds {
		bad := 0
		for id := range k.devices {
			if !k.healthy(id) {
				bad++
			}
		}
		all[name] = *resource.NewQuantity(int64(len(k.devices)), resource.DecimalSI)
		unhealthy[name] = *resource.NewQuantity(int64(bad), resource.DecimalSI)
	}
	return all, unhealthy
}

// Devices returns all devices that can be used, by resource.
func (p *Plugins) Devices() map[corev1.ResourceName][]*api.Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[corev1.ResourceName][]*api.Device{}
	for name, k := range p.kinds {
		for _, id := range slices.Sorted(maps.Keys(k.devices)) {
			if k.healthy(id) {
				out[name] = append(out[name], k.devices[id])
			}
		}
	}
	return out
}
