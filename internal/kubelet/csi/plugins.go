package csi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/kubelet/plugins"
	"github.com/millrace/millrace/loop"
)

// callTime bounds each call of a driver.
const callTime = 2 * time.Minute

// Options say which node this is and where things are. All but Logger are required.
type Options struct {
	Kube kubernetes.Interface
	Node string
	// Root is the kubelet's directory: drivers find their volumes below plugins and pods.
	Root string
	// Changed is told when the volumes that the node uses are others.
	Changed func()
	// Record records events. Nil drops them.
	Record loop.Recorder
	Logger *slog.Logger
}

// Drivers are those of one node. They are the handler of plugins of the type CSIPlugin, and a loop.Runner that has
// volumes unstaged.
type Drivers struct {
	Options

	mu    sync.Mutex // guards known
	known map[string]*driver

	volumes   locks // by driver and handle
	used      usages
	sizes     sizes
	unstaging *loop.Loop
}

// driver is a driver that has registered.
type driver struct {
	name, endpoint string
	connection     *grpc.ClientConn
	node           csipb.NodeClient
	can            map[csipb.NodeServiceCapability_RPC_Type]bool
}

// New makes the drivers of a node.
func New(o Options) *Drivers {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Record == nil {
		o.Record = unheard{}
	}
	d := &Drivers{Options: o, known: map[string]*driver{}}
	d.unstaging = d.newUnstaging()
	return d
}

// unheard drops events.
type unheard struct{}

// Eventf does nothing.
func (unheard) Eventf(runtime.Object, string, string, string, ...any) {}

// find is a driver by its name.
func (d *Drivers) find(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.known[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

// Close ends the connections to all drivers.
func (d *Drivers) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.known {
		x.connection.Close()
	}
}

// Accept asks a driver what it can do, and tells the cluster of it.
func (d *Drivers) Accept(ctx context.Context, p plugins.Plugin) error {
	c, err := plugins.Dial(p.Endpoint)
	if err != nil {
		return err
	}
	x := &driver{name: p.Name, endpoint: p.Endpoint, connection: c, node: csipb.NewNodeClient(c), can: map[csipb.NodeServiceCapability_RPC_Type]bool{}}
	if err := d.introduce(ctx, x); err != nil {
		return errors.Join(err, c.Close())
	}
	d.mu.Lock()
	before := d.known[p.Name]
	d.known[p.Name] = x
	d.mu.Unlock()
	if before != nil {
		before.connection.Close()
	}
	return nil
}

func (d *Drivers) introduce(ctx context.Context, x *driver) error {
	can, err := x.node.NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
	if err != nil {
		return fmt.Errorf("ask driver %s what it can do: %w", x.name, err)
	}
	for _, c := range can.GetCapabilities() {
		x.can[c.GetRpc().GetType()] = true
	}
	info, err := x.node.NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("ask driver %s about the node: %w", x.name, err)
	}
	return d.announce(ctx, x.name, info)
}

// Drop forgets a driver that has gone, unless another one has come in its place.
func (d *Drivers) Drop(ctx context.Context, p plugins.Plugin) {
	d.mu.Lock()
	x := d.known[p.Name]
	ours := x != nil && x.endpoint == p.Endpoint
	if ours {
		delete(d.known, p.Name)
	}
	d.mu.Unlock()
	if !ours {
		return
	}
	x.connection.Close()
	if err := d.withdraw(ctx, p.Name); err != nil && ctx.Err() == nil {
		d.Logger.Warn("driver cannot be taken from the node", "driver", p.Name, "err", err)
	}
}

// locks are mutexes by name.
type locks struct{ all sync.Map }

func (l *locks) lock(name string) (unlock func()) {
	m, _ := l.all.LoadOrStore(name, &sync.Mutex{})
	m.(*sync.Mutex).Lock()
	return m.(*sync.Mutex).Unlock
}
