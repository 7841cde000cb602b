package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/kubernetes"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	// lookEvery is how often the folder of registrations is read.
	lookEvery = time.Second
	// callTime bounds each call of a driver.
	callTime = 2 * time.Minute
)

// Options say which node this is and where things are. All but Logger are required.
type Options struct {
	Kube kubernetes.Interface
	Node string
	// Root is the kubelet's folder: drivers register below plugins_registry, and find their volumes below plugins and pods.
	Root string
	// Changed is told when the volumes that the node uses are others.
	Changed func()
	Logger  *slog.Logger
}

// Drivers are those of one node. They are a loop.Runner.
type Drivers struct {
	Options

	mu    sync.Mutex // guards known
	known map[string]*driver

	volumes locks // by driver and handle
}

// driver is a driver that has registered.
type driver struct {
	name, socket string // of the registration
	seen         time.Time
	connection   *grpc.ClientConn
	node         csipb.NodeClient
	can          map[csipb.NodeServiceCapability_RPC_Type]bool
}

// New makes the drivers of a node.
func New(o Options) *Drivers {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Drivers{Options: o, known: map[string]*driver{}}
}

func (d *Drivers) registry() string { return filepath.Join(d.Root, "plugins_registry") }

// Run registers drivers until ctx ends.
func (d *Drivers) Run(ctx context.Context) error {
	if err := os.MkdirAll(d.registry(), 0o750); err != nil {
		return fmt.Errorf("make the folder where drivers register: %w", err)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failed := map[string]string{} // by socket, so that the same failure is logged once
	for {
		d.look(ctx, failed)
		select {
		case <-tick.C:
		case <-ctx.Done():
			d.closeAll()
			return nil
		}
	}
}

// look compares the sockets that are there with the drivers that are known.
func (d *Drivers) look(ctx context.Context, failed map[string]string) {
	there := map[string]time.Time{}
	_ = filepath.WalkDir(d.registry(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has gone meanwhile
		}
		if info, err := e.Info(); err == nil && info.Mode()&fs.ModeSocket != 0 {
			there[path] = info.ModTime()
		}
		return nil
	})
	for _, x := range d.all() {
		if at, ok := there[x.socket]; !ok || !at.Equal(x.seen) {
			d.drop(ctx, x)
		} else {
			delete(there, x.socket)
		}
	}
	for socket, at := range there {
		err := d.register(ctx, socket, at)
		if err != nil && ctx.Err() == nil && failed[socket] != err.Error() {
			d.Logger.Warn("driver cannot be registered", "socket", socket, "err", err)
			failed[socket] = err.Error()
		}
	}
}

func (d *Drivers) all() []*driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []*driver
	for _, x := range d.known {
		all = append(all, x)
	}
	return all
}

// find is a driver by its name.
func (d *Drivers) find(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.known[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

func (d *Drivers) closeAll() {
	for _, x := range d.all() {
		x.connection.Close()
	}
}

func dial(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
}

// register asks who is behind a socket, and tells them whether they are welcome.
func (d *Drivers) register(ctx context.Context, socket string, seen time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := dial(socket)
	if err != nil {
		return err
	}
	defer c.Close()
	registrar := registration.NewRegistrationClient(c)
	info, err := registrar.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return fmt.Errorf("ask who it is: %w", err)
	}
	if info.Type != registration.CSIPlugin {
		return nil // device plugins and others are not for us
	}
	endpoint := info.Endpoint
	if endpoint == "" {
		endpoint = socket
	}
	problem := d.accept(ctx, info.Name, endpoint, socket, seen)
	status := &registration.RegistrationStatus{PluginRegistered: problem == nil}
	if problem != nil {
		status.Error = problem.Error()
	}
	_, err = registrar.NotifyRegistrationStatus(ctx, status)
	return errors.Join(problem, err)
}

// accept asks a driver what it can do, and tells the cluster of it.
func (d *Drivers) accept(ctx context.Context, name, endpoint, socket string, seen time.Time) error {
	c, err := dial(endpoint)
	if err != nil {
		return err
	}
	x := &driver{name: name, socket: socket, seen: seen, connection: c, node: csipb.NewNodeClient(c), can: map[csipb.NodeServiceCapability_RPC_Type]bool{}}
	if err := d.introduce(ctx, x); err != nil {
		return errors.Join(err, c.Close())
	}
	d.mu.Lock()
	before := d.known[name]
	d.known[name] = x
	d.mu.Unlock()
	if before != nil {
		before.connection.Close()
	}
	d.Logger.Info("driver registered", "driver", name)
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

// drop forgets a driver whose socket has gone.
func (d *Drivers) drop(ctx context.Context, x *driver) {
	d.mu.Lock()
	if d.known[x.name] == x {
		delete(d.known, x.name)
	}
	d.mu.Unlock()
	x.connection.Close()
	if err := d.withdraw(ctx, x.name); err != nil && ctx.Err() == nil {
		d.Logger.Warn("driver cannot be taken from the node", "driver", x.name, "err", err)
	}
}

// locks are mutexes by name.
type locks struct{ all sync.Map }

func (l *locks) lock(name string) (unlock func()) {
	m, _ := l.all.LoadOrStore(name, &sync.Mutex{})
	m.(*sync.Mutex).Lock()
	return m.(*sync.Mutex).Unlock
}
