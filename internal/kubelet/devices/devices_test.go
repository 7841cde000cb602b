package devices

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
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	healthalpha "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	dravbeta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/millrace/millrace/internal/kubelet/plugins"
)

const driverName = "gpu.example.com"

// testDriver notes what it is asked for. Each claim has the device "CLAIM", and for the request "b" the device
// "CLAIM-b" as well.
type testDriver struct {
	dra.UnimplementedDRAPluginServer

	mu      sync.Mutex
	calls   []string          // guarded by mu, as all below
	refuse  map[string]string // what is wrong with a claim
	leave   string            // a claim that is left out
	refused error             // of all calls
}

func (t *testDriver) NodePrepareResources(_ context.Context, r *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	for _, c := range r.Claims {
		t.calls = append(t.calls, "prepare:"+c.Name)
		one := &dra.NodePrepareResourceResponse{Error: t.refuse[c.Name]}
		if one.Error == "" {
			one.Devices = []*dra.Device{
				{RequestNames: []string{"a", "b/large"}, PoolName: "n", DeviceName: "d", CdiDeviceIds: []string{driverName + "/gpu=" + c.Name}},
				{RequestNames: []string{"b"}, PoolName: "n", DeviceName: "e", CdiDeviceIds: []string{driverName + "/gpu=" + c.Name + "-b"}},
			}
		}
		if c.Name != t.leave {
			answer.Claims[c.Uid] = one
		}
	}
	return answer, t.refused
}

func (t *testDriver) NodeUnprepareResources(_ context.Context, r *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	for _, c := range r.Claims {
		t.calls = append(t.calls, "unprepare:"+c.Name)
		answer.Claims[c.Uid] = &dra.NodeUnprepareResourceResponse{Error: t.refuse[c.Name]}
	}
	return answer, t.refused
}

// set changes how the driver answers.
func (t *testDriver) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// identity is the driver's other face: it says who it is.
type identity struct {
	registration.UnimplementedRegistrationServer
	versions []string
	status   chan *registration.RegistrationStatus
}

func (i *identity) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: driverName, SupportedVersions: i.versions}, nil
}

func (i *identity) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	i.status <- s
	return &registration.RegistrationStatusResponse{}, nil
}

// world is a node with one driver.
type world struct {
	*testing.T
	kube    *fake.Clientset
	driver  *testDriver
	who     *identity
	devices *Devices
	root    string
	health  nurse
	stop    func() // ends the driver
	// affected are pods whose devices have another health.
	affected chan []types.UID
}

// start makes a node and a driver, which has registered.
func start(t *testing.T, versions ...string) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "dra") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	w := &world{T: t, root: root, kube: fake.NewClientset(), driver: &testDriver{refuse: map[string]string{}}, health: nurse{tell: make(chan *health.DeviceHealth)}, affected: make(chan []types.UID, 10)}
	w.serve(versions...)
	if s := w.run(); !s.PluginRegistered {
		t.Fatal(s.Error)
	}
	return w
}

// serve begins the driver.
func (w *world) serve(versions ...string) {
	w.Helper()
	w.who = &identity{versions: versions, status: make(chan *registration.RegistrationStatus, 8)}
	socket := filepath.Join(w.root, "plugins_registry", "gpu.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		w.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		w.Fatal(err)
	}
	server := grpc.NewServer()
	dra.RegisterDRAPluginServer(server, w.driver)
	dravbeta.RegisterDRAPluginServer(server, dravbeta.V1ServerWrapper{DRAPluginServer: w.driver})
	registration.RegisterRegistrationServer(server, w.who)
	for _, version := range versions {
		switch version {
		case health.DRAResourceHealthService:
			health.RegisterDRAResourceHealthServer(server, w.health)
		case healthalpha.DRAResourceHealthService:
			healthalpha.RegisterDRAResourceHealthServer(server, health.V1ServerWrapper{Server: w.health})
		}
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	w.stop = sync.OnceFunc(func() { server.Stop(); <-served })
	w.Cleanup(w.stop)
}

// run begins a kubelet's part, and returns what the driver is told.
func (w *world) run() *registration.RegistrationStatus {
	w.Helper()
	var err error
	if w.devices, err = New(Options{Kube: w.kube, Node: "n", Root: w.root, Affected: func(pods []types.UID) { w.affected <- pods }}); err != nil {
		w.Fatal(err)
	}
	registry := plugins.New(plugins.Options{Root: w.root, Handlers: map[string]plugins.Handler{registration.DRAPlugin: w.devices}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- registry.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-done })
	return <-w.who.status
}

// claim makes a claim that is allocated, for some pods.
func (w *world) claim(name string, pods ...*corev1.Pod) {
	w.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-" + name)}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	c.Status.Allocation.Devices.Results = []resourcev1.DeviceRequestAllocationResult{{Request: "a", Driver: driverName, Pool: "n", Device: "d"}}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	if _, err := w.kube.ResourceV1().ResourceClaims("a").Create(w.Context(), c, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

// pod is a pod that uses claims of others, in its one container.
func pod(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-of-" + name)}}
	p.Spec.Containers = []corev1.Container{{Name: "main"}}
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "my-" + c, ResourceClaimName: &c})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "my-" + c})
	}
	return p
}

func (w *world) prepare(p *corev1.Pod) {
	w.Helper()
	if err := w.devices.Prepare(w.Context(), p); err != nil {
		w.Fatal(err)
	}
}

func (w *world) release(p *corev1.Pod) {
	w.Helper()
	if err := w.devices.Release(w.Context(), string(p.UID)); err != nil {
		w.Fatal(err)
	}
}

// called checks what the driver was asked for since it was called last.
func (w *world) called(want string) {
	w.Helper()
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	if got := strings.Join(w.driver.calls, " "); got != want {
		w.Errorf("the driver was asked for %q, want %q", got, want)
	}
	w.driver.calls = nil
}

// has checks which devices the container of a pod gets.
func (w *world) has(p *corev1.Pod, want ...string) {
	w.Helper()
	for i := range want {
		want[i] = driverName + "/gpu=" + want[i]
	}
	if got := w.devices.Of(p, &p.Spec.Containers[0]); !slices.Equal(got, want) {
		w.Errorf("the container gets %q, want %q", got, want)
	}
}

func TestAPodGetsTheDevicesOfItsClaims(t *testing.T) {
	for _, version := range []string{dra.DRAPluginService, dravbeta.DRAPluginService} {
		t.Run(version, func(t *testing.T) {
			w := start(t, version)
			p := pod("p", "x", "y")
			w.claim("x", p)
			w.claim("y", p)
			w.prepare(p)
			w.called("prepare:x prepare:y")
			w.has(p, "x", "x-b", "y", "y-b")
			p.Spec.Containers[0].Resources.Claims[0].Request = "a"
			p.Spec.Containers[0].Resources.Claims[1].Request = "c"
			w.has(p, "x")
			w.prepare(p)
			w.called("")
			w.release(p)
			w.called("unprepare:x unprepare:y")
			w.has(p)
			w.release(p)
			w.called("")
		})
	}
}

func TestAnExtendedResourceIsAClaimToo(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	p := pod("p")
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "x", RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "b"}},
	}
	w.claim("x", p)
	if err := w.devices.Prepare(t.Context(), p); err == nil {
		t.Error("a claim that the pod does not own was prepared")
	}
	w.edit("x", func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: new(true)}}
	})
	w.prepare(p)
	w.has(p, "x", "x-b")
}

func (w *world) edit(name string, change func(*resourcev1.ResourceClaim)) {
	w.Helper()
	c, err := w.kube.ResourceV1().ResourceClaims("a").Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	change(c)
	if _, err := w.kube.ResourceV1().ResourceClaims("a").Update(w.Context(), c, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestAClaimThatAPodMayNotUseIsNotPrepared(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	p := pod("p", "x")
	refused := func(want string) {
		t.Helper()
		if err := w.devices.Prepare(t.Context(), p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	refused(`"x" not found`)
	w.claim("x", pod("other"))
	refused("pod p(uid-of-p) is not allowed to use ResourceClaim x(uid-x)")
	w.edit("x", func(c *resourcev1.ResourceClaim) { c.Status = resourcev1.ResourceClaimStatus{} })
	refused("is not allocated")
	p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "my-x", ResourceClaimTemplateName: new("t")}
	refused("ResourceClaim not created yet")
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "my-x", ResourceClaimName: new("x")}}
	refused("was not created for Pod a/p (Pod is not owner)")
	w.called("")
}

func TestASharedClaimIsPreparedOnceAndUnpreparedWithItsLastUser(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	p, q := pod("p", "x"), pod("q", "x")
	w.claim("x", p, q)
	w.prepare(p)
	w.prepare(q)
	w.called("prepare:x")
	w.release(p)
	w.called("")
	w.has(q, "x", "x-b")
	w.release(q)
	w.called("unprepare:x")
}

func TestAClaimThatFailsIsTriedAgainAloneAndUnpreparedInTheEnd(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	p := pod("p", "x", "y", "z")
	for _, name := range []string{"x", "y", "z"} {
		w.claim(name, p)
	}
	w.driver.set(func() { w.driver.refuse["y"], w.driver.leave = "no room", "z" })
	err := w.devices.Prepare(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "NodePrepareResources failed for ResourceClaim y: no room") || !strings.Contains(err.Error(), "left out ResourceClaim z") {
		t.Errorf("the error is %v", err)
	}
	w.called("prepare:x prepare:y prepare:z")
	w.driver.set(func() { w.driver.refuse, w.driver.leave = nil, "" })
	w.prepare(p)
	w.called("prepare:y prepare:z")
	w.driver.set(func() { w.driver.refuse = map[string]string{"x": "busy"} })
	if err := w.devices.Release(t.Context(), string(p.UID)); err == nil {
		t.Error("a claim was released that its driver keeps")
	}
	w.called("unprepare:x unprepare:y unprepare:z")
	w.driver.set(func() { w.driver.refuse = nil })
	w.release(p)
	w.called("unprepare:x")
}

func TestAKubeletThatStartsAnewUnpreparesWhatNobodyUsesAnyMore(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	p, q := pod("p", "x"), pod("q", "y")
	w.claim("x", p)
	w.claim("y", q)
	w.driver.set(func() { w.driver.refused = errors.New("away") })
	if err := w.devices.Prepare(t.Context(), p); err == nil {
		t.Fatal("a driver that fails has prepared a claim")
	}
	w.driver.set(func() { w.driver.refused = nil })
	w.prepare(q)
	w.called("prepare:x prepare:y")
	w.run() // another one, which knows only what is on disk
	w.has(q, "y", "y-b")
	w.prepare(q)
	w.called("")
	if err := w.devices.Sweep(t.Context(), func(uid string) bool { return uid == string(q.UID) }); err != nil {
		t.Fatal(err)
	}
	w.called("unprepare:x") // it was begun, and nobody knows how far it got
}

func TestAFileThatCannotBeReadIsAnErrorAndStays(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "dra_state")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Root: root}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the error is %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "{" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

func TestAnotherClaimOfTheSameNameWaitsForTheFirst(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	p, q := pod("p", "x"), pod("q", "x")
	w.claim("x", p)
	w.prepare(p)
	w.edit("x", func(c *resourcev1.ResourceClaim) {
		c.UID, c.Status.ReservedFor = "another", []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "q", UID: q.UID}}
	})
	for name, ask := range map[string]func(context.Context, *corev1.Pod) error{"Prepare": w.devices.Prepare, "Check": w.devices.Check} {
		if err := ask(t.Context(), q); err == nil || !strings.Contains(err.Error(), "old ResourceClaim with same name x and different UID uid-x still exists") {
			t.Errorf("the error of %s is %v", name, err)
		}
	}
	w.release(p)
	if err := w.devices.Check(t.Context(), q); err != nil {
		t.Errorf("nothing is in the way, and the error is %v", err)
	}
	w.prepare(q)
}

func TestADriverWithoutACommonVersionIsRefused(t *testing.T) {
	w := &world{T: t, root: t.TempDir(), kube: fake.NewClientset(), driver: &testDriver{}}
	var err error
	if w.devices, err = New(Options{Kube: w.kube, Node: "n", Root: w.root}); err != nil {
		t.Fatal(err)
	}
	for _, versions := range [][]string{nil, {"v9.DRAPlugin"}} {
		if err := w.devices.Accept(t.Context(), plugins.Plugin{Name: driverName, Endpoint: "/none", Versions: versions}); err == nil || !strings.Contains(err.Error(), "is supported") {
			t.Errorf("%q: %v", versions, err)
		}
	}
	p := pod("p", "x")
	w.claim("x", p)
	defer w.release(p) // which needs no driver, because none was asked
	if err := w.devices.Prepare(t.Context(), p); err == nil || !strings.Contains(err.Error(), "DRA driver gpu.example.com is not registered") {
		t.Errorf("the error is %v", err)
	}
}

// Many pods that share claims come and go at the same time: no claim is prepared twice, and none stays prepared.
func TestPodsThatComeAndGoAtTheSameTimeLeaveNothing(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	var pods []*corev1.Pod
	for i := range 30 {
		pods = append(pods, pod(fmt.Sprint("p", i), fmt.Sprint("c", i%5), fmt.Sprint("c", (i+2)%5)))
	}
	for i := range 5 {
		w.claim(fmt.Sprint("c", i), pods...)
	}
	var all sync.WaitGroup
	for _, p := range pods {
		all.Go(func() {
			if err := w.devices.Prepare(t.Context(), p); err != nil {
				t.Error(err)
			}
			if n := len(w.devices.Of(p, &p.Spec.Containers[0])); n != 4 {
				t.Errorf("%s has %d devices", p.Name, n)
			}
			if err := w.devices.Release(t.Context(), string(p.UID)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	prepared := map[string]int{}
	for _, call := range w.driver.calls {
		what, claim, _ := strings.Cut(call, ":")
		if what == "prepare" {
			prepared[claim]++
		} else {
			prepared[claim]--
		}
		if n := prepared[claim]; n < 0 || n > 1 {
			t.Fatalf("claim %s is prepared %d times", claim, n)
		}
	}
	for claim, n := range prepared {
		if n != 0 {
			t.Errorf("claim %s stays prepared", claim)
		}
	}
}

// deleted are the selectors of the resource slices that were deleted.
func (w *world) deleted() []string {
	var all []string
	for _, a := range w.kube.Actions() {
		if d, ok := a.(k8stesting.DeleteCollectionAction); ok && a.GetResource().Resource == "resourceslices" {
			all = append(all, d.GetListRestrictions().Fields.String())
		}
	}
	return all
}

func TestSlicesGoAtTheStartAndWhenTheirDriverHasBeenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, kube: fake.NewClientset()}
		var err error
		if w.devices, err = New(Options{Kube: w.kube, Node: "n", Root: t.TempDir()}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.devices.Run(ctx) }()
		synctest.Wait()
		if got := w.deleted(); !slices.Equal(got, []string{"spec.nodeName=n"}) {
			t.Errorf("at the start %q were deleted", got)
		}
		w.devices.Drop(ctx, plugins.Plugin{Name: driverName})
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := w.deleted(); len(got) != 1 {
			t.Errorf("before half a minute %q were deleted", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.deleted(); len(got) != 2 || got[1] != "spec.driver=gpu.example.com,spec.nodeName=n" {
			t.Errorf("then %q were deleted", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSlicesOfADriverThatAnswersStay(t *testing.T) {
	w := start(t, dra.DRAPluginService)
	wipe := func() int {
		t.Helper()
		if _, err := w.devices.wipe(t.Context(), driverKey(driverName)); err != nil {
			t.Fatal(err)
		}
		return len(w.deleted())
	}
	if n := wipe(); n != 0 {
		t.Error("the slices of a driver were deleted that is there")
	}
	x, err := w.devices.find(driverName)
	if err != nil {
		t.Fatal(err)
	}
	w.stop() // its socket goes with it
	x.connection.WaitForStateChange(t.Context(), connectivity.Ready)
	if n := wipe(); n != 1 {
		t.Error("the slices of a driver are left that is away")
	}
	w.serve(dra.DRAPluginService)
	<-w.who.status
	if n := wipe(); n != 1 {
		t.Error("the slices of a driver were deleted that is back")
	}
}
