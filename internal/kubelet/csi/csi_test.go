package csi_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/millrace/millrace/internal/kubelet/csi"
	"github.com/millrace/millrace/internal/kubelet/plugins"
	"github.com/millrace/millrace/loop"
)

const driverName = "disks.example.com"

// plugin is a small driver. It makes directories, and notes what it is asked for.
type plugin struct {
	csipb.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	socket string

	mu      sync.Mutex
	calls   []string // guarded by mu, as all below
	context map[string]string
	secrets map[string]string
	refuse  error // of unpublishing
	broken  error // of staging
	keeps   error // of unstaging

	unstaged chan struct{} // has a buffer of one
	status   chan *registration.RegistrationStatus
}

func (p *plugin) note(call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, call)
}

// took returns the calls since it was called last.
func (p *plugin) took() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Join(p.calls, " ")
	p.calls = nil
	return all
}

func (p *plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: p.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (p *plugin) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	p.status <- s
	return &registration.RegistrationStatusResponse{}, nil
}

func (p *plugin) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	answer := &csipb.NodeGetCapabilitiesResponse{}
	for _, kind := range []csipb.NodeServiceCapability_RPC_Type{
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		answer.Capabilities = append(answer.Capabilities, &csipb.NodeServiceCapability{Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: kind}}})
	}
	return answer, nil
}

func (p *plugin) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return &csipb.NodeGetInfoResponse{NodeId: "id-of-n", MaxVolumesPerNode: 7, AccessibleTopology: &csipb.Topology{Segments: map[string]string{"disks.example.com/rack": "r1"}}}, nil
}

func (p *plugin) NodeStageVolume(_ context.Context, r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	p.note("stage:" + r.VolumeId)
	p.mu.Lock()
	defer p.mu.Unlock()
	return &csipb.NodeStageVolumeResponse{}, p.broken
}

func (p *plugin) NodeUnstageVolume(_ context.Context, r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	p.note("unstage:" + r.VolumeId)
	select {
	case p.unstaged <- struct{}{}:
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &csipb.NodeUnstageVolumeResponse{}, p.keeps
}

func (p *plugin) NodePublishVolume(_ context.Context, r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	p.note("publish:" + r.VolumeId)
	p.mu.Lock()
	p.context, p.secrets = r.VolumeContext, r.Secrets
	p.mu.Unlock()
	if r.VolumeCapability.GetBlock() != nil {
		return &csipb.NodePublishVolumeResponse{}, os.WriteFile(r.TargetPath, nil, 0o600)
	}
	if err := os.MkdirAll(r.TargetPath, 0o755); err != nil {
		return nil, err
	}
	return &csipb.NodePublishVolumeResponse{}, os.WriteFile(filepath.Join(r.TargetPath, "data"), nil, 0o600)
}

func (p *plugin) NodeUnpublishVolume(_ context.Context, r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	p.note("unpublish:" + r.VolumeId)
	return &csipb.NodeUnpublishVolumeResponse{}, os.RemoveAll(r.TargetPath)
}

func (p *plugin) NodeExpandVolume(_ context.Context, r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	p.note("expand:" + r.VolumeId)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: r.CapacityRange.RequiredBytes}, nil
}

func (p *plugin) NodeGetVolumeStats(_ context.Context, r *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	p.note("stats:" + r.VolumeId)
	if _, err := os.Stat(r.VolumePath); err != nil {
		return nil, err
	}
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Total: 100, Available: 60, Used: 40, Unit: csipb.VolumeUsage_BYTES}, {Total: 10, Available: 9, Used: 1, Unit: csipb.VolumeUsage_INODES},
	}}, nil
}

// world is a node with one driver.
type world struct {
	*testing.T
	kube    *fake.Clientset
	plugin  *plugin
	drivers *csi.Drivers
	root    string
	changed chan struct{} // has a buffer of one
	stop    func()        // ends the drivers
}

// start makes a node, and waits until its driver has registered.
func start(t *testing.T) *world {
	t.Helper()
	root, err := os.MkdirTemp("", "csi") // short: a socket's path has 108 bytes at the most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	w := &world{T: t, root: root, changed: make(chan struct{}, 1), kube: fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}})}
	w.plugin = &plugin{socket: filepath.Join(root, "plugins_registry", "disks.sock"), status: make(chan *registration.RegistrationStatus, 1), unstaged: make(chan struct{}, 1)}
	if err := os.MkdirAll(filepath.Dir(w.plugin.socket), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", w.plugin.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csipb.RegisterNodeServer(server, w.plugin)
	registration.RegisterRegistrationServer(server, w.plugin)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-served })
	w.run()
	return w
}

// run runs the drivers of the node, as a kubelet that begins.
func (w *world) run() {
	w.Helper()
	changed := func() {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
	w.drivers = csi.New(csi.Options{Kube: w.kube, Node: "n", Root: w.root, Changed: changed})
	registry := plugins.New(plugins.Options{Root: w.root, Handlers: map[string]plugins.Handler{registration.CSIPlugin: w.drivers}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Join(registry, w.drivers).Run(ctx) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-done })
	w.Cleanup(w.stop)
	if s := <-w.plugin.status; !s.PluginRegistered {
		w.Fatal(s.Error)
	}
}

func pod(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p-" + uid, UID: types.UID(uid)}, Spec: corev1.PodSpec{ServiceAccountName: "default"}}
}

func volume() (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}, Status: corev1.PersistentVolumeClaimStatus{Capacity: size}}
	return claim, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h"}},
	}}
}

// attaches says whether the driver wants volumes to be attached.
func (w *world) attaches(attaches bool, edit func(*storagev1.CSIDriverSpec)) {
	w.Helper()
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: &attaches, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
	}}
	if edit != nil {
		edit(&d.Spec)
	}
	if _, err := w.kube.StorageV1().CSIDrivers().Create(w.Context(), d, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) mount(uid string) string {
	w.Helper()
	claim, pv := volume()
	path, err := w.drivers.Persistent(w.Context(), pod(uid), claim, pv, false)
	if err != nil {
		w.Fatal(err)
	}
	return path
}

// release takes its volumes from a pod, for which the driver is to be asked for what want says.
func (w *world) release(uid, want string) {
	w.Helper()
	if err := w.drivers.Release(w.Context(), uid); err != nil {
		w.Fatal(err)
	}
	w.called(want)
}

// releaseAll takes its volumes from the last pod of the node that has them, and waits until nothing is staged.
func (w *world) releaseAll(uid, want string) {
	w.Helper()
	if err := w.drivers.Release(w.Context(), uid); err != nil {
		w.Fatal(err)
	}
	w.awaitUnstaged()
	w.called(want)
}

func (w *world) awaitUnstaged() {
	w.Helper()
	plugins := filepath.Join(w.root, "plugins/kubernetes.io/csi")
	for {
		staged, _ := filepath.Glob(filepath.Join(plugins, driverName, "*"))
		blocks, _ := filepath.Glob(filepath.Join(plugins, "volumeDevices", "*", "*"))
		if len(staged)+len(blocks) == 0 {
			return
		}
		select {
		case <-w.changed:
		case <-w.Context().Done():
			w.Fatal("something stays staged: ", staged, blocks)
		}
	}
}

func (w *world) called(want string) {
	w.Helper()
	if got := w.plugin.took(); got != want {
		w.Errorf("the driver was asked for %q, want %q", got, want)
	}
}

func TestADriverAppearsInItsNode(t *testing.T) {
	w := start(t)
	n, err := w.kube.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := n.Spec.Drivers[0]
	if d.Name != driverName || d.NodeID != "id-of-n" || *d.Allocatable.Count != 7 || !slices.Equal(d.TopologyKeys, []string{"disks.example.com/rack"}) || n.OwnerReferences[0].UID != "u" {
		t.Errorf("the CSINode is %+v", n)
	}
	node, err := w.kube.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil || node.Labels["disks.example.com/rack"] != "r1" || node.Annotations["csi.volume.kubernetes.io/nodeid"] != `{"disks.example.com":"id-of-n"}` {
		t.Errorf("the node is %+v, %v", node, err)
	}
}

func TestAVolumeIsStagedOnceAndPublishedForEachPod(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	first := w.mount("1")
	w.called("stage:h publish:h")
	if w.mount("1") != first {
		t.Error("the volume is somewhere else the second time")
	}
	w.called("")
	w.mount("2")
	w.called("stage:h publish:h") // a driver answers at once that it is staged
	w.release("1", "unpublish:h")
	w.releaseAll("2", "unpublish:h unstage:h")
	if left, _ := filepath.Glob(filepath.Join(w.root, "pods", "*", "volumes", "kubernetes.io~csi", "*")); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAVolumeIsUnstagedUnlessTheDriverHasDoneNothing(t *testing.T) {
	for _, c := range []struct {
		code  codes.Code
		calls string // when the pod is gone
	}{
		{codes.InvalidArgument, "unpublish:h"},
		{codes.DeadlineExceeded, "unpublish:h unstage:h"},
	} {
		w := start(t)
		w.attaches(false, nil)
		w.plugin.mu.Lock()
		w.plugin.broken = status.Error(c.code, "broken")
		w.plugin.mu.Unlock()
		claim, pv := volume()
		for range 2 {
			if _, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false); status.Code(err) != c.code {
				t.Errorf("staging ends with %v, want %s", err, c.code)
			}
		}
		w.called("stage:h stage:h")
		w.releaseAll("1", c.calls)
	}
}

// TestAPodIsGoneBeforeItsVolumeIsUnstaged: a driver may fail for long, and another pod may get the volume in between.
func TestAPodIsGoneBeforeItsVolumeIsUnstaged(t *testing.T) {
	w := start(t)
	w.attaches(true, nil)
	claim, pv := volume()
	if _, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false); err == nil {
		t.Fatal("a volume was published that is not attached")
	}
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachment(t, w)}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	if _, err := w.kube.StorageV1().VolumeAttachments().Create(t.Context(), a, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.mount("1")
	w.called("stage:h publish:h")
	w.keep(errors.New("busy"))
	if err := w.drivers.Release(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	<-w.plugin.unstaged // the driver has refused
	if use := w.drivers.InUse(); len(use) != 1 {
		t.Errorf("the node says that it uses %v, want the staged volume", use)
	}
	w.mount("2")
	w.keep(nil)
	if err := w.drivers.Release(t.Context(), "2"); err != nil {
		t.Fatal(err)
	}
	w.awaitUnstaged()
	calls := slices.Compact(strings.Fields(w.plugin.took())) // the driver may have been asked several times
	if got := strings.Join(calls, " "); got != "unpublish:h unstage:h stage:h publish:h unpublish:h unstage:h" {
		t.Errorf("the driver was asked for %q", got)
	}
	if use := w.drivers.InUse(); len(use) != 0 {
		t.Errorf("the node says that it uses %v, and uses nothing", use)
	}
}

// keep has the driver refuse to unstage.
func (w *world) keep(err error) {
	w.plugin.mu.Lock()
	defer w.plugin.mu.Unlock()
	w.plugin.keeps = err
}

func TestAVolumeOfRawBlocksIsADevice(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	claim, pv := volume()
	pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	blocks := filepath.Join(w.root, "plugins/kubernetes.io/csi/volumeDevices")
	for _, uid := range []string{"1", "2"} {
		path, err := w.drivers.Persistent(t.Context(), pod(uid), claim, pv, false)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(blocks, "publish", pv.Name, uid); path != want {
			t.Errorf("the device of pod %s is %s, want %s", uid, path, want)
		}
		w.called("stage:h publish:h")
	}
	w.release("1", "unpublish:h")
	w.releaseAll("2", "unpublish:h unstage:h")
	for _, pattern := range []string{filepath.Join(blocks, "*", "*"), filepath.Join(w.root, "pods/*/volumeDevices/kubernetes.io~csi/*")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}
}

func TestDataStaysWhileADriverDoesNotLetGo(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	path := w.mount("1")
	w.plugin.mu.Lock()
	w.plugin.refuse = errors.New("busy")
	w.plugin.mu.Unlock()
	if err := w.drivers.Release(t.Context(), "1"); err == nil {
		t.Error("a volume was released that its driver keeps")
	}
	if _, err := os.Stat(filepath.Join(path, "data")); err != nil {
		t.Errorf("its data has gone: %v", err)
	}
}

func TestAKubeletThatStartsAnewReleasesWhatWasThere(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	w.mount("1")
	w.plugin.took()
	w.run() // another one, which knows nothing
	w.releaseAll("1", "unpublish:h unstage:h")
}

func TestAKubeletThatStartsAnewUnstagesWhatWasLeft(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	w.mount("1")
	w.keep(errors.New("busy"))
	if err := w.drivers.Release(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	<-w.plugin.unstaged
	w.stop()
	w.plugin.took()
	w.keep(nil)
	w.run()
	w.awaitUnstaged()
	w.called("unstage:h")
}

func TestAVolumeForOnePodIsKeptFromOthers(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	mount := func(uid string, modes ...corev1.PersistentVolumeAccessMode) error {
		claim, pv := volume()
		pv.Spec.AccessModes = modes
		_, err := w.drivers.Persistent(t.Context(), pod(uid), claim, pv, false)
		return err
	}
	if err := errors.Join(mount("1", corev1.ReadWriteOncePod), mount("1", corev1.ReadWriteOncePod)); err != nil {
		t.Fatal(err)
	}
	w.run() // another kubelet, which knows nothing
	if err := mount("2", corev1.ReadWriteOncePod); err == nil || !strings.Contains(err.Error(), "already in use by another pod") {
		t.Errorf("a second pod gets the volume: %v", err)
	}
	if err := mount("3", corev1.ReadWriteOncePod, corev1.ReadWriteOnce); err != nil {
		t.Errorf("a volume that several may have is kept from them: %v", err)
	}
	w.plugin.took()
	w.release("3", "unpublish:h")
	w.releaseAll("1", "unpublish:h unstage:h")
	if err := mount("2", corev1.ReadWriteOncePod); err != nil {
		t.Errorf("the volume is kept from a pod when the other has gone: %v", err)
	}
}

func TestAVolumeWaitsForItsAttachment(t *testing.T) {
	w := start(t)
	claim, pv := volume()
	if _, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false); err == nil {
		t.Fatal("a volume was published that is not attached")
	}
	w.called("")
	use := w.drivers.InUse()
	if len(use) != 1 || use[0] != "kubernetes.io/csi/"+driverName+"^h" {
		t.Errorf("the node says that it uses %v", use)
	}
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: attachment(t, w)}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	if _, err := w.kube.StorageV1().VolumeAttachments().Create(t.Context(), a, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.mount("1")
	w.called("stage:h publish:h")
}

// attachment is the name under which the node looks for the attachment.
func attachment(t *testing.T, w *world) string {
	t.Helper()
	for _, action := range slices.Backward(w.kube.Actions()) {
		if get, ok := action.(interface{ GetName() string }); ok && action.GetResource().Resource == "volumeattachments" {
			return get.GetName()
		}
	}
	t.Fatal("nobody asked for an attachment")
	return ""
}

func TestAnInlineVolumeIsToldOfItsPod(t *testing.T) {
	w := start(t)
	yes := true
	w.attaches(true, func(s *storagev1.CSIDriverSpec) { s.PodInfoOnMount = &yes })
	v := &corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: driverName, VolumeAttributes: map[string]string{"size": "1"}}}}
	if _, err := w.drivers.Inline(t.Context(), pod("1"), v); err != nil {
		t.Fatal(err)
	}
	if got := w.plugin.took(); !strings.HasPrefix(got, "publish:csi-") {
		t.Errorf("the driver was asked for %q", got)
	}
	c := w.plugin.context
	if c["csi.storage.k8s.io/ephemeral"] != "true" || c["csi.storage.k8s.io/pod.name"] != "p-1" || c["size"] != "1" {
		t.Errorf("the driver was told %v", c)
	}
}

// TestTokensAreWhereTheDriverWantsThem: what is in the context of a volume may be logged.
func TestTokensAreWhereTheDriverWantsThem(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		w := start(t)
		w.kube.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "t"}}, nil
		})
		w.attaches(false, func(s *storagev1.CSIDriverSpec) {
			s.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
			s.ServiceAccountTokenInSecrets = &hidden
		})
		w.mount("1")
		const key = "csi.storage.k8s.io/serviceAccount.tokens"
		in, not := w.plugin.context, w.plugin.secrets
		if hidden {
			in, not = not, in
		}
		if not[key] != "" || !strings.HasPrefix(in[key], `{"vault":{"token":"t"`) {
			t.Errorf("hidden %v: the context is %v, the secrets are %v", hidden, w.plugin.context, w.plugin.secrets)
		}
	}
}

func TestADriverTellsHowFullAVolumeIs(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	w.mount("1")
	w.called("stage:h publish:h")
	for range 2 {
		all := w.drivers.Usages(t.Context(), "1")
		if len(all) != 1 || all[0].Claim != "c" || *all[0].Bytes != (csi.Amount{Total: 100, Available: 60, Used: 40}) || all[0].Inodes.Available != 9 {
			t.Fatalf("it tells %+v", all)
		}
	}
	w.called("stats:h") // the second time the answer is fresh
	if all := w.drivers.Usages(t.Context(), "2"); len(all) > 0 {
		t.Errorf("of a pod without volumes it tells %+v", all)
	}
}

// growing is a claim whose volume has grown already, and waits for the node.
func (w *world) growing() (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	w.Helper()
	claim, pv := volume()
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	if _, err := w.kube.CoreV1().PersistentVolumeClaims("a").Create(w.Context(), claim, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	return claim, pv
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	w.Helper()
	c, err := w.kube.CoreV1().PersistentVolumeClaims("a").Get(w.Context(), "c", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// TestAClaimSaysWhyItsVolumeDoesNotGrow: what can never work is not tried again, and a size that the user has taken
// back neither.
func TestAClaimSaysWhyItsVolumeDoesNotGrow(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  codes.Code
		asked string // after the first failure
		want  []corev1.ClaimResourceStatus
	}{
		{"infeasible", codes.OutOfRange, "2Gi", []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimNodeResizeInfeasible}},
		{"taken back", codes.Internal, "1Gi", []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible}},
		{"tried again", codes.Internal, "2Gi", []corev1.ClaimResourceStatus{corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInProgress}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			w.attaches(false, nil)
			claim, pv := w.growing()
			w.plugin.mu.Lock()
			w.plugin.refuse = status.Error(c.code, "no")
			w.plugin.mu.Unlock()
			for i, want := range c.want {
				if _, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false); err == nil {
					t.Error("nothing failed")
				}
				claim = w.claim()
				if got := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; got != want {
					t.Errorf("after %d failures it is %q, want %q", i+1, got, want)
				}
				if len(claim.Status.Conditions) != 2 || claim.Status.Conditions[1].Type != corev1.PersistentVolumeClaimNodeResizeError {
					t.Errorf("the conditions are %v", claim.Status.Conditions)
				}
				claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(c.asked)
			}
			w.plugin.took()
			if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizeInfeasible {
				if _, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false); err != nil {
					t.Error(err)
				}
				w.called("")
			}
		})
	}
}

func TestAFileSystemGrowsWithItsVolume(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	claim, pv := w.growing()
	if _, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false); err != nil {
		t.Fatal(err)
	}
	w.called("stage:h publish:h expand:h")
	after := w.claim().Status
	if q := after.Capacity[corev1.ResourceStorage]; q.String() != "2Gi" || len(after.Conditions) > 0 || after.AllocatedResourceStatuses != nil {
		t.Errorf("the claim's status is %+v", after)
	}
}

// TestAVolumeThatAnotherNodeHasExpandedGrowsHereToo: the claim says that it is done, but each node has a file system of
// its own.
func TestAVolumeThatAnotherNodeHasExpandedGrowsHereToo(t *testing.T) {
	w := start(t)
	w.attaches(false, nil)
	claim, pv := w.growing()
	claim.Status.AllocatedResourceStatuses = nil // the volume has not grown yet
	before := pv.Spec.Capacity.DeepCopy()
	pv.Spec.Capacity[corev1.ResourceStorage] = claim.Status.Capacity[corev1.ResourceStorage]
	use := func(name, want string) {
		t.Helper()
		if _, err := w.drivers.Persistent(t.Context(), pod(name), claim, pv, false); err != nil {
			t.Fatal(err)
		}
		w.called(want)
	}
	use("1", "stage:h publish:h")
	pv.Spec.Capacity = before
	use("1", "") // the resizer or another node is at it
	claim.Status.Capacity = before
	use("1", "expand:h")
	use("1", "")
	use("2", "stage:h publish:h")
	if err := w.drivers.Release(t.Context(), "1"); err != nil {
		t.Fatal(err)
	}
	use("2", "unpublish:h")
}

func TestADriverThatIsNotThereIsTold(t *testing.T) {
	w := start(t)
	claim, pv := volume()
	pv.Spec.CSI.Driver = "other"
	_, err := w.drivers.Persistent(t.Context(), pod("1"), claim, pv, false)
	if err == nil || !strings.Contains(err.Error(), "driver name other not found in the list of registered CSI drivers") {
		t.Errorf("the error is %v", err)
	}
}
