package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/plugins"
)

const toy = "example.com/toy"

// toys is a plugin. Its devices can change, and it notes what it is asked for.
type toys struct {
	api.UnimplementedDevicePluginServer
	options api.DevicePluginOptions
	socket  string
	stop    func()

	mu      sync.Mutex
	devices []*api.Device // guarded by mu, as all below
	changed chan struct{} // closed with the next change
	calls   []string
	refuse  error
}

func (to *toys) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{PreStartRequired: to.options.PreStartRequired}, nil
}

func (to *toys) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		to.mu.Lock()
		devices, changed := to.devices, to.changed
		to.mu.Unlock()
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

func (to *toys) note(call string) error {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.calls = append(to.calls, call)
	return to.refuse
}

func (to *toys) Allocate(_ context.Context, r *api.AllocateRequest) (*api.AllocateResponse, error) {
	ids := r.ContainerRequests[0].DevicesIds
	if err := to.note("allocate " + strings.Join(ids, ",")); err != nil {
		return nil, err
	}
	return &api.AllocateResponse{ContainerResponses: []*api.ContainerAllocateResponse{{
		Envs:        map[string]string{"TOYS": strings.Join(ids, ","), "OWN": "plugin"},
		Mounts:      []*api.Mount{{ContainerPath: "/toys", HostPath: "/var/toys", ReadOnly: true}},
		Devices:     []*api.DeviceSpec{{ContainerPath: "/dev/toy", HostPath: "/dev/" + ids[0], Permissions: "rw"}},
		Annotations: map[string]string{"toys": "yes"},
		CdiDevices:  []*api.CDIDevice{{Name: "example.com/toy=" + ids[0]}},
	}}}, nil
}

// GetPreferredAllocation prefers the last devices.
func (to *toys) GetPreferredAllocation(_ context.Context, r *api.PreferredAllocationRequest) (*api.PreferredAllocationResponse, error) {
	one := r.ContainerRequests[0]
	ids := slices.Clone(one.MustIncludeDeviceIDs)
	for _, id := range slices.Backward(one.AvailableDeviceIDs) {
		if len(ids) < int(one.AllocationSize) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return &api.PreferredAllocationResponse{ContainerResponses: []*api.ContainerPreferredAllocationResponse{{DeviceIDs: ids}}}, to.note("prefer")
}

func (to *toys) PreStartContainer(_ context.Context, r *api.PreStartContainerRequest) (*api.PreStartContainerResponse, error) {
	return &api.PreStartContainerResponse{}, to.note("start " + strings.Join(r.DevicesIds, ","))
}

// has sets the devices: names, those that begin with a dash are not healthy.
func (to *toys) has(names ...string) {
	to.mu.Lock()
	defer to.mu.Unlock()
	to.devices = nil
	for _, n := range names {
		d := &api.Device{ID: strings.TrimPrefix(n, "-"), Health: api.Healthy}
		if d.ID != n {
			d.Health = api.Unhealthy
		}
		to.devices = append(to.devices, d)
	}
	if to.changed != nil {
		close(to.changed)
	}
	to.changed = make(chan struct{})
}

// world is a node's device plugins.
type world struct {
	*testing.T
	plugins  *Plugins
	root     string
	stop     func()
	changed  chan struct{}
	affected chan []types.UID
}

func start(t *testing.T) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "dp") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	w := &world{T: t, root: root, stop: func() {}}
	w.restart()
	t.Cleanup(func() { w.stop() })
	return w
}

// restart ends the kubelet's part and begins another.
func (w *world) restart() {
	w.Helper()
	w.stop()
	w.changed, w.affected = make(chan struct{}, 100), make(chan []types.UID, 100)
	var err error
	w.plugins, err = New(Options{
		Directory: w.root, Changed: func() { w.changed <- struct{}{} }, Affected: func(pods []types.UID) { w.affected <- pods },
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.plugins.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
	for {
		if c, err := net.Dial("unix", filepath.Join(w.root, SocketName)); err == nil {
			c.Close()
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// plug begins a plugin that has registered and told its devices.
func (w *world) plug(p *toys) *toys {
	w.Helper()
	w.serve(p, "toy.sock")
	if err := w.register(&api.RegisterRequest{Version: api.Version, Endpoint: "toy.sock", ResourceName: toy, Options: &p.options}); err != nil {
		w.Fatal(err)
	}
	<-w.changed
	return p
}

func (w *world) serve(p *toys, name string) {
	w.Helper()
	p.socket = filepath.Join(w.root, name)
	listener, err := net.Listen("unix", p.socket)
	if err != nil {
		w.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	p.stop = sync.OnceFunc(func() { server.Stop(); <-served })
	w.Cleanup(p.stop)
}

func (w *world) register(r *api.RegisterRequest) error {
	w.Helper()
	c, err := plugins.Dial(filepath.Join(w.root, SocketName))
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	_, err = api.NewRegistrationClient(c).Register(w.Context(), r)
	return err
}

// counts checks the number of devices and of those that are not healthy.
func (w *world) counts(want string) {
	w.Helper()
	all, bad := w.plugins.Amounts()
	a, b := all[toy], bad[toy]
	if got := fmt.Sprintf("%s, %s bad", a.String(), b.String()); got != want {
		w.Errorf("there are %s, want %s", got, want)
	}
}

func (to *toys) called(t *testing.T, want ...string) {
	t.Helper()
	to.mu.Lock()
	defer to.mu.Unlock()
	if !slices.Equal(to.calls, want) {
		t.Errorf("the plugin was asked for %q, want %q", to.calls, want)
	}
	to.calls = nil
}

// pod is a pod whose containers, main-0 and so on, ask for numbers of toys.
func pod(name string, amounts ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name)}}
	for i, amount := range amounts {
		p.Spec.Containers = append(p.Spec.Containers, asking(fmt.Sprint("main-", i), amount))
	}
	return p
}

func asking(name, amount string) corev1.Container {
	c := corev1.Container{Name: name}
	c.Resources.Limits = corev1.ResourceList{toy: resource.MustParse(amount), "example.com/other": resource.MustParse("1"), "cpu": resource.MustParse("1")}
	return c
}

func (w *world) admit(p *corev1.Pod) {
	w.Helper()
	if err := w.plugins.Admit(w.Context(), p); err != nil {
		w.Fatal(err)
	}
}

func (w *world) refused(p *corev1.Pod, want string) {
	w.Helper()
	if err := w.plugins.Admit(w.Context(), p); err == nil || err.Error() != want {
		w.Errorf("the error is %v, want %s", err, want)
	}
}

// ids are the devices of a container.
func (w *world) ids(p *corev1.Pod, container string) string {
	var all []string
	for _, d := range w.plugins.Of(p.UID, container)[toy] {
		all = append(all, d.ID)
	}
	return strings.Join(all, ",")
}

func TestDevicesAreCountedAndTheHealthyOnesUsed(t *testing.T) {
	w := start(t)
	p := &toys{}
	p.has("a", "b", "c")
	w.plug(p)
	w.counts("3, 0 bad")
	p.has("a", "-b", "c")
	<-w.changed
	w.counts("3, 1 bad")
	first := pod("first", "2")
	w.admit(first)
	if got := w.ids(first, "main-0"); got != "a,c" {
		t.Errorf("the container has %s", got)
	}
	w.refused(pod("second", "1"), "requested number of devices unavailable for example.com/toy. Requested: 1, Available: 0")
	p.has("-a", "b", "c")
	<-w.changed
	if got := <-w.affected; !slices.Equal(got, []types.UID{"uid-first"}) {
		t.Errorf("%v are affected", got)
	}
	health := w.plugins.Health(first.UID, "main-0")
	if len(health) != 1 || health[0].Name != toy || fmt.Sprint(health[0].Resources) != fmt.Sprint([]corev1.ResourceHealth{{ResourceID: "a", Health: "Unhealthy"}, {ResourceID: "c", Health: "Healthy"}}) {
		t.Errorf("the health is %v", health)
	}
	w.admit(pod("second", "1"))
	p.has("-a", "-b", "-c")
	<-w.changed
	w.refused(pod("third", "1"), "no healthy devices present; cannot allocate unhealthy devices example.com/toy")
}

func TestDevicesOfAPluginThatHasGoneAreForgottenLater(t *testing.T) {
	w := start(t)
	w.plugins.forgetAfter = 200 * time.Millisecond
	p := &toys{}
	p.has("a", "b")
	w.plug(p)
	p.stop()
	<-w.changed
	w.counts("2, 2 bad")
	<-w.changed
	w.counts("0, 0 bad")
	again := &toys{}
	again.has("a")
	w.plug(again)
	w.counts("1, 0 bad")
}

func TestContainersOneAfterTheOtherUseTheSameDevice(t *testing.T) {
	w := start(t)
	p := &toys{}
	p.has("a", "b", "c")
	w.plug(p)
	x := pod("x", "1", "1")
	x.Spec.InitContainers = []corev1.Container{asking("first", "2"), asking("side", "1"), asking("last", "2")}
	always := corev1.ContainerRestartPolicyAlways
	x.Spec.InitContainers[1].RestartPolicy = &always
	w.admit(x)
	got := map[string]string{}
	for _, name := range []string{"first", "side", "last", "main-0", "main-1"} {
		got[name] = w.ids(x, name)
	}
	if want := "map[first:a,b last:b,c main-0:b main-1:c side:a]"; fmt.Sprint(got) != want {
		t.Errorf("the containers have %v, want %s", got, want)
	}
	w.refused(pod("y", "1"), "requested number of devices unavailable for example.com/toy. Requested: 1, Available: 0")
	if err := w.plugins.Release(x.UID); err != nil {
		t.Fatal(err)
	}
	w.admit(pod("y", "3"))
}

func TestThePluginsPreferenceIsFollowed(t *testing.T) {
	w := start(t)
	p := &toys{options: api.DevicePluginOptions{GetPreferredAllocationAvailable: true}}
	p.has("a", "b", "c")
	w.plug(p)
	x := pod("x", "2")
	w.admit(x)
	p.called(t, "prefer", "allocate c,b")
	w.admit(x)
	p.called(t)
}

func TestAContainerGetsWhatThePluginSays(t *testing.T) {
	w := start(t)
	p := &toys{options: api.DevicePluginOptions{PreStartRequired: true}}
	p.has("a", "b")
	w.plug(p)
	x := pod("x", "1")
	w.admit(x)
	furnish := func() (*container.Spec, error) {
		spec := &container.Spec{Pod: x, Container: &x.Spec.Containers[0], Env: []container.Variable{{Name: "OWN", Value: "pod"}}}
		return spec, w.plugins.Furnish(t.Context(), spec)
	}
	spec, err := furnish()
	if err != nil {
		t.Fatal(err)
	}
	p.called(t, "allocate a", "start a")
	got := fmt.Sprint(spec.Env, spec.Mounts, spec.Nodes, spec.Annotations, spec.Devices)
	if want := "[{OWN pod} {TOYS a}] [{/toys /var/toys   true  false false}] [{/dev/toy /dev/a rw}] map[toys:yes] [example.com/toy=a]"; got != want {
		t.Errorf("the container gets %s, want %s", got, want)
	}
	p.mu.Lock()
	p.refuse = errors.New("broken")
	p.mu.Unlock()
	if _, err := furnish(); err == nil || !strings.Contains(err.Error(), "device plugin PreStartContainer rpc failed with err: ") {
		t.Errorf("the error is %v", err)
	}
}

func TestARestartOfTheKubeletChangesNothing(t *testing.T) {
	w := start(t)
	p := &toys{}
	p.has("a", "b")
	w.plug(p)
	x := pod("x", "1")
	w.admit(x)
	p.called(t, "allocate a")
	w.restart()
	if _, err := os.Stat(p.socket); !errors.Is(err, os.ErrNotExist) {
		t.Error("the plugin's socket is there, so the plugin does not register again")
	}
	w.counts("0, 0 bad")
	if health := w.plugins.Health(x.UID, "main-0"); len(health) != 1 || health[0].Resources[0].Health != "Healthy" {
		t.Errorf("the health is %v", health)
	}
	w.admit(x)
	w.refused(pod("y", "1"), "cannot allocate unregistered device example.com/toy")
	again := &toys{}
	again.has("a", "b")
	w.plug(again)
	y := pod("y", "1")
	w.admit(y)
	again.called(t, "allocate b")
	if w.ids(x, "main-0") != "a" {
		t.Errorf("the first pod has %s", w.ids(x, "main-0"))
	}
	if err := w.plugins.Sweep(func(uid string) bool { return uid == string(y.UID) }); err != nil {
		t.Fatal(err)
	}
	w.admit(pod("z", "1"))
	again.called(t, "allocate a")
}

func TestAPluginThatCannotBeUsedIsRefused(t *testing.T) {
	w := start(t)
	for want, r := range map[string]*api.RegisterRequest{
		`requested API version "v9" is not supported`:   {Version: "v9", Endpoint: "toy.sock", ResourceName: toy},
		`the ResourceName "toy" is invalid`:             {Version: api.Version, Endpoint: "toy.sock", ResourceName: "toy"},
		`the ResourceName "a.kubernetes.io/toy" is inv`: {Version: api.Version, Endpoint: "toy.sock", ResourceName: "a.kubernetes.io/toy"},
		`the endpoint "../toy.sock" is not the name`:    {Version: api.Version, Endpoint: "../toy.sock", ResourceName: toy},
	} {
		if err := w.register(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func TestAPluginMayRegisterAsOthersDo(t *testing.T) {
	w := start(t)
	p := &toys{options: api.DevicePluginOptions{PreStartRequired: true}}
	p.has("a")
	w.serve(p, "elsewhere.sock")
	about := plugins.Plugin{Type: "DevicePlugin", Name: toy, Endpoint: p.socket, Versions: []string{"v1beta1"}}
	if err := w.plugins.Accept(t.Context(), about); err != nil {
		t.Fatal(err)
	}
	<-w.changed
	w.counts("1, 0 bad")
	w.plugins.Drop(t.Context(), about)
	<-w.changed
	w.counts("1, 1 bad")
}

func TestAClaimTakesThePlaceOfAPlugin(t *testing.T) {
	w := start(t)
	p := &toys{}
	p.has("a")
	w.plug(p)
	x := pod("x", "1")
	x.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "claim", RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main-0", ResourceName: toy, RequestName: "r"}},
	}
	w.admit(x)
	p.called(t)
}
