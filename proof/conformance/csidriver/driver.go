//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// driver is a driver of volumes of one node.
type driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	settings

	mu      sync.Mutex         // held during each call that changes something
	volumes map[string]*volume // by id; guarded by mu, as the file that says the same
}

// settings are the driver's flags.
type settings struct {
	name, node, directory, parameters string
	limit, attachLimit                int64
	attaches, topology, grows, modify bool
}

// volume is one volume.
type volume struct {
	ID, Name  string
	Size      int64
	Block     bool
	Ephemeral bool
	Nodes     map[string]bool   // to which it is attached
	Loops     map[string]string // the loop device by the path where it is published
}

func runDriver(ctx context.Context, args []string) error {
	d := &driver{volumes: map[string]*volume{}}
	f := newFlags("check-volume-lifecycle", "ephemeral", "show-version")
	endpoint := f.String("endpoint", "unix:///tmp/csi.sock", "socket of the driver")
	relayed := f.String("proxy-endpoint", "", "relay clients of the endpoint to whoever connects here, and do nothing else")
	f.StringVar(&d.name, "drivername", "hostpath.csi.k8s.io", "name of the driver")
	f.StringVar(&d.node, "nodeid", "", "name of the node")
	f.StringVar(&d.directory, "statedir", "/csi-data-dir", "where volumes are")
	f.StringVar(&d.parameters, "accepted-mutable-parameter-names", "", "parameters that may be changed; all by default")
	f.Int64Var(&d.limit, "maxvolumespernode", 0, "the most volumes of a node")
	f.Int64Var(&d.attachLimit, "attach-limit", 0, "the most attached volumes of a node")
	f.BoolVar(&d.attaches, "enable-attach", false, "attach volumes")
	f.BoolVar(&d.topology, "enable-topology", true, "tell on which node volumes are")
	f.BoolVar(&d.grows, "node-expand-required", true, "volumes grow on the node, too")
	f.BoolVar(&d.modify, "enable-controller-modify-volume", false, "volumes can be modified")
	_ = f.Parse(args)
	if *relayed != "" {
		return relay(ctx, *endpoint, *relayed)
	}
	d.directory = filepath.Join(d.directory, d.name) // because the tests give all their drivers one directory
	if err := d.load(); err != nil {
		return err
	}
	listener, err := listenUnix(*endpoint)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(logCall))
	csipb.RegisterIdentityServer(server, d)
	csipb.RegisterControllerServer(server, d)
	csipb.RegisterNodeServer(server, d)
	defer context.AfterFunc(ctx, server.Stop)()
	return stopped(ctx, server.Serve(listener))
}

// logCall prints each call, one JSON object a line, as the tests look for them in the driver's log.
func logCall(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	line := map[string]any{"Method": info.FullMethod, "Request": request, "Response": answer, "Error": "", "FullError": nil}
	if err != nil {
		s := status.Convert(err)
		line["Response"], line["Error"], line["FullError"] = nil, err.Error(), map[string]any{"code": s.Code(), "message": s.Message()}
	}
	if text, failed := json.Marshal(line); failed == nil {
		fmt.Printf("gRPCCall: %s\n", text)
	}
	return answer, err
}

func (d *driver) file() string          { return filepath.Join(d.directory, "volumes.json") }
func (d *driver) path(v *volume) string { return filepath.Join(d.directory, v.ID) }
func (d *driver) topologyKey() string   { return "topology.hostpath.csi/node" }
func (d *driver) place() *csipb.Topology {
	return &csipb.Topology{Segments: map[string]string{d.topologyKey(): d.node}}
}
func missing(id string) error { return status.Errorf(codes.NotFound, "volume %s does not exist", id) }
func failed(err error) error  { return status.Error(codes.Internal, err.Error()) }

func (d *driver) load() error {
	if err := os.MkdirAll(d.directory, 0o755); err != nil {
		return err
	}
	text, err := os.ReadFile(d.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &d.volumes)
}

// save writes down the volumes. A driver that cannot do that must not go on.
func (d *driver) save() {
	text, err := json.Marshal(d.volumes)
	if err == nil {
		err = os.WriteFile(d.file(), text, 0o600)
	}
	if err != nil {
		panic(err)
	}
}

// run runs a program, and returns what it prints.
func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", status.Errorf(codes.Internal, "%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// make makes a volume, as a copy of another one if that is not nil.
func (d *driver) make(v, from *volume) error {
	path := d.path(v)
	switch {
	case from != nil:
		if _, err := run("cp", "-a", d.path(from), path); err != nil {
			return err
		}
	case !v.Block:
		if err := os.MkdirAll(path, 0o777); err != nil {
			return failed(err)
		}
	}
	if v.Block {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err == nil {
			err = errors.Join(file.Truncate(v.Size), file.Close())
		}
		if err != nil {
			return failed(err)
		}
	} else if err := os.Chmod(path, 0o777); err != nil {
		return failed(err)
	}
	d.volumes[v.ID] = v
	d.save()
	return nil
}

func (d *driver) remove(v *volume) error {
	if err := os.RemoveAll(d.path(v)); err != nil {
		return failed(err)
	}
	delete(d.volumes, v.ID)
	d.save()
	return nil
}

// GetPluginInfo tells the driver's name.
func (d *driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

// Probe says that the driver is ready.
func (d *driver) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// GetPluginCapabilities tells what the driver is.
func (d *driver) GetPluginCapabilities(context.Context, *csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	services := []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE}
	if d.topology {
		services = append(services, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	answer := &csipb.GetPluginCapabilitiesResponse{}
	for _, s := range services {
		answer.Capabilities = append(answer.Capabilities, &csipb.PluginCapability{Type: &csipb.PluginCapability_Service_{Service: &csipb.PluginCapability_Service{Type: s}}})
	}
	return answer, nil
}
