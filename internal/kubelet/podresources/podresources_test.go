package podresources_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
	"github.com/millrace/millrace/internal/kubelet/podresources"
)

// known are the devices of a node with one container that has some.
type known struct{}

func (known) PluginDevices() map[corev1.ResourceName][]*deviceplugin.Device {
	near := &deviceplugin.TopologyInfo{Nodes: []*deviceplugin.NUMANode{{ID: 0}, {ID: 1}}}
	return map[corev1.ResourceName][]*deviceplugin.Device{"example.com/toy": {{ID: "a"}, {ID: "b", Topology: near}}}
}

func (known) PluginDevicesOf(_ *corev1.Pod, c *corev1.Container) map[corev1.ResourceName][]*deviceplugin.Device {
	if c.Name != "main" {
		return nil
	}
	return map[corev1.ResourceName][]*deviceplugin.Device{"example.com/toy": {{ID: "a"}}}
}

func (known) ClaimedDevicesOf(_ *corev1.Pod, c *corev1.Container) []*api.DynamicResource {
	if c.Name != "side" {
		return nil
	}
	return []*api.DynamicResource{{ClaimName: "claim", ClaimNamespace: "a", ClaimResources: []*api.ClaimResource{{DriverName: "gpu.example.com", PoolName: "n", DeviceName: "d"}}}}
}

func TestAgentsAreToldTheDevicesOfPods(t *testing.T) {
	directory, err := os.MkdirTemp("", "pr") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "first"}, {Name: "side", RestartPolicy: &always}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	s := podresources.New(podresources.Options{Directory: directory, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} }, Devices: known{}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	socket := filepath.Join(directory, "kubelet.sock")
	for c, err := net.Dial("unix", socket); ; c, err = net.Dial("unix", socket) {
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(time.Millisecond)
	}
	connection, err := plugins.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	client := api.NewPodResourcesListerClient(connection)

	list, err := client.List(t.Context(), &api.ListPodResourcesRequest{})
	if err != nil || len(list.PodResources) != 1 {
		t.Fatalf("the list is %v, %v", list, err)
	}
	got, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "p", PodNamespace: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*api.PodResources{list.PodResources[0], got.PodResources} {
		if p.Name != "p" || p.Namespace != "a" || len(p.Containers) != 2 || p.Containers[0].Name != "side" || p.Containers[1].Name != "main" {
			t.Fatalf("the pod is %v", p)
		}
		if d := p.Containers[0].DynamicResources; len(d) != 1 || d[0].ClaimName != "claim" {
			t.Errorf("the sidecar has %v", d)
		}
		if d := p.Containers[1].Devices; len(d) != 1 || d[0].ResourceName != "example.com/toy" || d[0].DeviceIds[0] != "a" || d[0].Topology != nil {
			t.Errorf("the container has %v", d)
		}
	}
	if _, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "q", PodNamespace: "a"}); status.Code(err) != codes.NotFound {
		t.Errorf("the error is %v", err)
	}
	all, err := client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	if err != nil || len(all.Devices) != 3 || all.Devices[2].Topology.Nodes[0].ID != 1 {
		t.Errorf("the devices of the node are %v, %v", all, err)
	}
}
