// Package podresources tells agents of a node which devices its pods have (Kubernetes' pod resources API, v1).
//
// What is guaranteed: the pods are those that were admitted and have not ended, each with its sidecars and containers.
// Whoever may open the socket may ask.
//
// What may not be assumed: that CPUs and memory are listed, because containers get none for themselves.
package podresources

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/plugins"
)

// Devices know the devices of a node.
type Devices interface {
	// PluginDevices are all healthy devices of device plugins.
	PluginDevices() map[corev1.ResourceName][]*deviceplugin.Device
	// PluginDevicesOf are those of a container.
	PluginDevicesOf(pod *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]*deviceplugin.Device
	// ClaimedDevicesOf are the devices that a container has by resource claims.
	ClaimedDevicesOf(pod *corev1.Pod, c *corev1.Container) []*api.DynamicResource
}

// Options say where the socket is and what is told. All but Logger are required.
type Options struct {
	Directory string
	// Pods returns the pods that were admitted and have not ended.
	Pods    func() []*corev1.Pod
	Devices Devices
	Logger  *slog.Logger
}

// Server answers at the socket kubelet.sock. It is a loop.Runner.
type Server struct {
	api.UnimplementedPodResourcesListerServer
	Options
}

// New makes a Server.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{Options: o}
}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	err := plugins.Serve(ctx, filepath.Join(s.Directory, "kubelet.sock"), func(r grpc.ServiceRegistrar) { api.RegisterPodResourcesListerServer(r, s) })
	if err != nil && ctx.Err() == nil { // pods run all the same
		s.Logger.Error("nobody can ask for the devices of pods", "err", err)
		<-ctx.Done()
	}
	return nil
}

// List tells the devices of all pods.
func (s *Server) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	answer := &api.ListPodResourcesResponse{}
	for _, pod := range s.Pods() {
		answer.PodResources = append(answer.PodResources, s.resources(pod))
	}
	return answer, nil
}

// Get tells the devices of one pod.
func (s *Server) Get(_ context.Context, request *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	for _, pod := range s.Pods() {
		if pod.Name == request.GetPodName() && pod.Namespace == request.GetPodNamespace() {
			return &api.GetPodResourcesResponse{PodResources: s.resources(pod)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", request.GetPodName(), request.GetPodNamespace())
}

// GetAllocatableResources tells all devices that containers can have.
func (s *Server) GetAllocatableResources(context.Context, *api.AllocatableResourcesRequest) (*api.AllocatableResourcesResponse, error) {
	return &api.AllocatableResourcesResponse{Devices: list(s.Devices.PluginDevices())}, nil
}

func (s *Server) resources(pod *corev1.Pod) *api.PodResources {
	r := &api.PodResources{Name: pod.Name, Namespace: pod.Namespace}
	add := func(c *corev1.Container) {
		r.Containers = append(r.Containers, &api.ContainerResources{
			Name: c.Name, Devices: list(s.Devices.PluginDevicesOf(pod, c)), DynamicResources: s.Devices.ClaimedDevicesOf(pod, c),
		})
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; demand.Sidecar(c) {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return r
}

// list has an entry for each device, and for each part of the machine that it is near to.
func list(devices map[corev1.ResourceName][]*deviceplugin.Device) []*api.ContainerDevices {
	var all []*api.ContainerDevices
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		for _, d := range devices[name] {
			near := d.GetTopology().GetNodes()
			if d.GetTopology() == nil {
				all = append(all, &api.ContainerDevices{ResourceName: string(name), DeviceIds: []string{d.GetID()}})
			}
			for _, n := range near {
				all = append(all, &api.ContainerDevices{
					ResourceName: string(name), DeviceIds: []string{d.GetID()}, Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: n.GetID()}}},
				})
			}
		}
	}
	return all
}
