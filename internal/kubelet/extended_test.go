package kubelet

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	told "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/plugins"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/runtimetest"
	"github.com/millrace/millrace/loop"
)

// toy is a device plugin with one device.
type toy struct {
	api.UnimplementedDevicePluginServer
}

func (toy) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: []*api.Device{{ID: "t0", Health: api.Healthy}}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func (toy) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	return &api.AllocateResponse{ContainerResponses: []*api.ContainerAllocateResponse{{Envs: map[string]string{"TOY": r.ContainerRequests[0].DevicesIds[0]}}}}, nil
}

// await waits for something that happens behind a socket, where virtual time does not help.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestAPodGetsTheDeviceOfAPluginAndTheNextOneIsRefused(t *testing.T) {
	root, err := os.MkdirTemp("", "kp") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	runtime := &slowRuntime{Runtime: runtimetest.New(), used: map[string]container.Usage{}, devices: map[string][]string{}, env: map[string]string{}}
	w := &world{t: t, kube: fake.NewClientset(), runtime: runtime}
	clients := loop.ClientsFor(w.kube)
	plugged := filepath.Join(root, "device-plugins")
	w.kubelet, err = New(Options{
		Clients: clients, Name: "node", Runtime: runtime, Root: root, SecretsOnDisk: true, Addresses: []string{"10.0.0.1"},
		ServeDevices: true, DevicePlugins: plugged,
		Eviction: pressure.Limits{Hard: pressure.Thresholds{}}, // whatever this machine is short of
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, clients, w.kubelet) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	socket := filepath.Join(plugged, "kubelet.sock")
	await(t, "the kubelet lets plugins register", func() bool { _, err := os.Stat(socket); return err == nil })
	listener, err := net.Listen("unix", filepath.Join(plugged, "toy.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, toy{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	connection, err := plugins.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_, err = api.NewRegistrationClient(connection).Register(t.Context(), &api.RegisterRequest{Version: api.Version, Endpoint: "toy.sock", ResourceName: "example.com/toy"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the node has a toy", func() bool {
		n, err := w.kube.CoreV1().Nodes().Get(t.Context(), "node", metav1.GetOptions{})
		if err != nil {
			return false
		}
		q := n.Status.Allocatable["example.com/toy"]
		return q.Value() == 1
	})

	wanting := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/toy": resource.MustParse("1")}
		p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	}
	make := func(name string) {
		t.Helper()
		if _, err := w.kube.CoreV1().Pods("default").Create(t.Context(), podOf(name, wanting), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	make("first")
	await(t, "the first pod runs", func() bool { return w.phase("first") == "Running " })
	runtime.mu.Lock()
	if runtime.env["TOY"] != "t0" {
		t.Errorf("the container has %v", runtime.env)
	}
	runtime.mu.Unlock()
	if s := w.pod("first").Status.ContainerStatuses[0].AllocatedResourcesStatus; len(s) != 1 || s[0].Resources[0].Health != corev1.ResourceHealthStatusHealthy {
		t.Errorf("the status of the devices is %v", s)
	}
	make("second")
	await(t, "the second pod is refused", func() bool { return w.phase("second") == "Failed UnexpectedAdmissionError" })
	if got, want := w.pod("second").Status.Message, "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/toy. Requested: 1, Available: 0, which is unexpected"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}

	asked, err := plugins.Dial(filepath.Join(root, "pod-resources", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer asked.Close()
	list, err := told.NewPodResourcesListerClient(asked).List(t.Context(), &told.ListPodResourcesRequest{})
	if err != nil || len(list.PodResources) != 1 || list.PodResources[0].Containers[0].Devices[0].DeviceIds[0] != "t0" {
		t.Errorf("agents are told %v, %v", list, err)
	}

	if err := w.kube.CoreV1().Pods("default").Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the device is free", func() bool { return len(w.kubelet.plugins.Of("uid-first", "main")) == 0 })
	make("third")
	await(t, "the third pod runs", func() bool { return w.phase("third") == "Running " })
}
