package devices

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	dravbeta "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

const (
	// callTime bounds each call of a driver.
	callTime = 45 * time.Second
	// connectTime is how long a driver may take to answer before its resource slices are deleted.
	connectTime = 5 * time.Second
)

// driver is one instance of a driver. During an update there may be two of the same name.
type driver struct {
	dra.DRAPluginClient
	name, endpoint string
	connection     *grpc.ClientConn
	life           context.Context // ends when the driver goes
	end            context.CancelFunc
}

// close ends the connection to a driver.
func (d *driver) close() {
	d.end()
	d.connection.Close()
}

// Accept takes a driver that speaks a version that this kubelet speaks too.
func (d *Devices) Accept(_ context.Context, p plugins.Plugin) error {
	x := &driver{name: p.Name, endpoint: p.Endpoint}
	x.life, x.end = context.WithCancel(context.Background())
	var err error
	if x.connection, err = plugins.Dial(p.Endpoint, grpc.WithStatsHandler(line{d, p.Name}), grpc.WithIdleTimeout(0)); err != nil {
		return err
	}
	switch {
	case slices.Contains(p.Versions, dra.DRAPluginService):
		x.DRAPluginClient = dra.NewDRAPluginClient(x.connection)
	case slices.Contains(p.Versions, dravbeta.DRAPluginService):
		x.DRAPluginClient = dravbeta.V1Beta1ClientWrapper{DRAPluginClient: dravbeta.NewDRAPluginClient(x.connection)}
	default:
		return errors.Join(fmt.Errorf("none of the versions %q of driver %s is supported, which are %q", p.Versions, p.Name,
			[]string{dra.DRAPluginService, dravbeta.DRAPluginService}), x.connection.Close())
	}
	if c := healthClient(p.Versions, x.connection); c != nil {
		d.streams.Go(func() { d.followHealth(x, c) })
	}
	d.mu.Lock()
	d.drivers[p.Name] = append(d.drivers[p.Name], x)
	d.mu.Unlock()
	x.connection.Connect()
	d.slices.AddAfter(driverKey(p.Name), wipeAfter) // unless the connection is there by then
	return nil
}

// Drop forgets a driver that has gone.
func (d *Devices) Drop(_ context.Context, p plugins.Plugin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drivers[p.Name] = slices.DeleteFunc(d.drivers[p.Name], func(x *driver) bool {
		if x.endpoint != p.Endpoint {
			return false
		}
		x.close()
		return true
	})
	if len(d.drivers[p.Name]) == 0 {
		delete(d.drivers, p.Name)
	}
	d.slices.AddAfter(driverKey(p.Name), wipeAfter)
}

// Close ends the connections to all drivers.
func (d *Devices) Close() {
	d.mu.Lock()
	for _, all := range d.drivers {
		for _, x := range all {
			x.close()
		}
	}
	d.mu.Unlock()
	d.streams.Wait()
}

// find is a driver by its name: the instance that registered last of those that are connected, or else of all.
func (d *Devices) find(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.drivers[name]
	for _, x := range slices.Backward(all) {
		if x.connection.GetState() == connectivity.Ready {
			return x, nil
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	return all[len(all)-1], nil
}

// reachable tells whether an instance of a driver can be connected to.
func (d *Devices) reachable(ctx context.Context, name string) bool {
	x, err := d.find(name)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	x.connection.ResetConnectBackoff()
	for state := x.connection.GetState(); state != connectivity.Ready; {
		x.connection.Connect()
		if !x.connection.WaitForStateChange(ctx, state) {
			return false
		}
		if state = x.connection.GetState(); state == connectivity.TransientFailure || state == connectivity.Shutdown {
			return false
		}
	}
	return true
}

// line follows the connections to a driver.
type line struct {
	devices *Devices
	driver  string
}

// HandleConn sees to the driver's resource slices when a connection has ended.
func (l line) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ended := s.(*stats.ConnEnd); ended {
		l.devices.slices.AddAfter(driverKey(l.driver), wipeAfter)
	}
}

// TagConn is not used.
func (line) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// TagRPC is not used.
func (line) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC is not used.
func (line) HandleRPC(context.Context, stats.RPCStats) {}
