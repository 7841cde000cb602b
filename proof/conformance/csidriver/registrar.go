//go:build unix

package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// dialDriver connects to a driver. Calls wait until it is there.
func dialDriver(socket string) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
}

// registrar tells the kubelet of a driver.
type registrar struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
	refused        chan error
}

func runRegistrar(ctx context.Context, args []string) error {
	f := newFlags("http-endpoint", "health-port")
	address := f.String("csi-address", "/run/csi/socket", "socket of the driver")
	endpoint := f.String("kubelet-registration-path", "", "the same as the kubelet sees it")
	directory := f.String("plugin-registration-path", "/registration", "where to register")
	_ = f.Parse(args)
	connection, err := dialDriver(*address)
	if err != nil {
		return err
	}
	about, err := csipb.NewIdentityClient(connection).GetPluginInfo(ctx, &csipb.GetPluginInfoRequest{})
	if err = errors.Join(err, connection.Close()); err != nil {
		return err
	}
	r := &registrar{name: about.Name, endpoint: *endpoint, refused: make(chan error, 1)}
	socket := filepath.Join(*directory, about.Name+"-reg.sock")
	listener, err := listenUnix(socket)
	if err != nil {
		return err
	}
	defer os.Remove(socket)
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, r)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case <-ctx.Done():
	case err = <-r.refused:
	case err = <-ended:
	}
	server.Stop()
	return err
}

// GetInfo says which driver it is.
func (r *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: r.name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus ends the registrar if the driver was refused, so that it starts anew.
func (r *registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		select {
		case r.refused <- errors.New("the kubelet has refused the driver: " + s.Error):
		default:
		}
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// runProbe serves the state of a driver by HTTP.
func runProbe(ctx context.Context, args []string) error {
	f := newFlags("probe-timeout", "http-endpoint", "metrics-address")
	address := f.String("csi-address", "/run/csi/socket", "socket of the driver")
	port := f.String("health-port", "9808", "where to serve")
	_ = f.Parse(args)
	connection, err := dialDriver(*address)
	if err != nil {
		return err
	}
	defer connection.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, q *http.Request) {
		if _, err := csipb.NewIdentityClient(connection).Probe(q.Context(), &csipb.ProbeRequest{}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Addr: ":" + *port, Handler: mux}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	return stopped(ctx, server.ListenAndServe())
}
