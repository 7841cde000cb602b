package furnish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// ErrUnsupported means that this kubelet does not support a type of volume.
var ErrUnsupported = errors.New("this sort of volume is not supported")

// Options configure a Furnisher. Root is required.
type Options struct {
	// Root is the directory that has one directory for each pod.
	Root string
	// Kube reads config maps, secrets and claims, and requests tokens. It is nil in a standalone kubelet.
	Kube kubernetes.Interface
	// Node is the node's name, in whose name certificates of pods are requested.
	Node string
	// Services returns the services of a namespace. Nil means that there are none.
	Services func(namespace string) []*corev1.Service
	// Addresses are the node's addresses.
	Addresses []string
	// Allocatable is what containers without limits may use.
	Allocatable corev1.ResourceList
	// ClusterDNS and ClusterDomain configure the pods' resolvers.
	ClusterDNS    []string
	ClusterDomain string
	// Resolver is the file that configures the resolver of pods that use the node's. If empty, the runtime takes the
	// machine's.
	Resolver string
	// ImageUser returns the user of an image. Nil means that it is not known.
	ImageUser func(ctx context.Context, ref string) (uid *int64, name string, err error)
	// Streaming means that the server supports WatchList: a watch begins with the current state.
	Streaming bool
	// Drivers mounts the volumes of CSI drivers. Nil means that there are none.
	Drivers Drivers
	// Devices give containers the devices of resource claims. Nil has none.
	Devices Devices
	// Plugins give containers the devices of device plugins. Nil has none.
	Plugins Plugins
	// Registries have credentials of image registries besides pods' secrets. Nil has none.
	Registries Registries
	// SecretsOnDisk keeps secrets and tokens on the disk, for tests: a tmpfs needs root.
	SecretsOnDisk bool
	// Changed hears of pods whose config maps or secrets have changed. Nil hears nothing.
	Changed func(worker.Key)
	// Record records events. Nil drops them.
	Record loop.Recorder
	Logger *slog.Logger
}

// unheard drops events.
type unheard struct{}

// Eventf does nothing.
func (unheard) Eventf(runtime.Object, string, string, string, ...any) {}

// Registries have credentials of image registries.
type Registries interface {
	Credentials(ctx context.Context, pod *corev1.Pod, image string) []container.Credential
}

// Drivers mounts and unmounts the volumes of CSI drivers.
type Drivers interface {
	Persistent(ctx context.Context, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, readOnly bool) (string, error)
	Inline(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error)
	Release(ctx context.Context, uid string) error
}

// Devices make the devices of resource claims ready, and take them away from a pod.
type Devices interface {
	Prepare(ctx context.Context, pod *corev1.Pod) error
	// Check returns why the devices of a pod cannot be prepared yet.
	Check(ctx context.Context, pod *corev1.Pod) error
	// Of are the names of the CDI devices that a container gets.
	Of(pod *corev1.Pod, c *corev1.Container) []string
	Release(ctx context.Context, uid string) error
}

// Plugins add what a container gets from device plugins, and take a pod's devices back.
type Plugins interface {
	Furnish(ctx context.Context, spec *container.Spec) error
	Release(pod types.UID) error
}

// Furnisher furnishes the pods of one node. It is a loop.Runner.
type Furnisher struct {
	Options
	objects      *objects
	tokens       *tokens
	certificates *podCertificates
	mounts       mounts

	making sync.Mutex // held while a device gets a file system
	giving sync.Mutex // held while a pod gets the users of its user namespace
	// subUsers and subGroups are the files with the users and groups that the machine sets aside.
	subUsers, subGroups string
}

var (
	_ worker.Furnisher = (*Furnisher)(nil)
	_ worker.Checker   = (*Furnisher)(nil)
)

// New returns a Furnisher.
func New(o Options) *Furnisher {
	o.ClusterDomain = cmp.Or(o.ClusterDomain, "cluster.local")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(worker.Key) {}
	}
	if o.Record == nil {
		o.Record = unheard{}
	}
	f := &Furnisher{
		Options: o, objects: newObjects(&o), tokens: newTokens(o.Kube), mounts: system{}, subUsers: "/etc/subuid", subGroups: "/etc/subgid",
	}
	f.certificates = &podCertificates{o: &f.Options, objects: f.objects, known: map[projection]*podCertificate{}}
	return f
}

// Run runs the watches until ctx ends. A standalone kubelet has nothing to watch and need not call it.
func (f *Furnisher) Run(ctx context.Context) error { return f.objects.run(ctx) }

func (f *Furnisher) podDirectory(uid string) string { return filepath.Join(f.Root, "pods", uid) }

func (f *Furnisher) volumeDirectory(uid, volume string) string {
	return filepath.Join(f.podDirectory(uid), "volumes", volume)
}

// Directory returns the directory of a pod's volume, for volumes that are kept in the pod's own directory.
func (f *Furnisher) Directory(uid types.UID, volume string) string {
	return f.volumeDirectory(string(uid), volume)
}

// used are the names of the volumes that a container mounts or has as a device. Others are not made ready, and nothing
// that they lack keeps a pod from starting.
func used(pod *corev1.Pod) map[string]bool {
	names := map[string]bool{}
	add := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) {
		for i := range mounts {
			names[mounts[i].Name] = true
		}
		for i := range devices {
			names[devices[i].Name] = true
		}
	}
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			add(all[i].VolumeMounts, all[i].VolumeDevices)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	return names
}

// makeDirectories makes the directories of a pod. Other users of the machine cannot look into them, also not into those
// of an earlier version.
func (f *Furnisher) makeDirectories(uid string) error {
	if err := os.MkdirAll(filepath.Join(f.podDirectory(uid), "volumes"), 0o750); err != nil {
		return err
	}
	return os.Chmod(filepath.Join(f.Root, "pods"), 0o750)
}

// Prepare makes a pod's volumes and devices ready, or brings them up to date.
func (f *Furnisher) Prepare(ctx context.Context, pod *corev1.Pod) error {
	if err := f.makeDirectories(string(pod.UID)); err != nil {
		return err
	}
	wanted := used(pod)
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !wanted[v.Name] {
			continue
		}
		if err := f.volume(ctx, pod, v); err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
		}
	}
	if f.Devices != nil {
		return notPrepared(f.Devices.Prepare(ctx, pod))
	}
	return nil
}

// Check implements worker.Checker: only devices are known to be kept by another pod.
func (f *Furnisher) Check(ctx context.Context, pod *corev1.Pod) error {
	if f.Devices == nil {
		return nil
	}
	return notPrepared(f.Devices.Check(ctx, pod))
}

func notPrepared(err error) error {
	if err == nil {
		return nil
	}
	return &worker.NotPrepared{Reason: "FailedPrepareDynamicResources", Err: fmt.Errorf("Failed to prepare dynamic resources: %w", err)}
}

// Release unmounts and removes a pod's volumes.
func (f *Furnisher) Release(ctx context.Context, _ worker.Key, uid string) error {
	directory := f.podDirectory(uid)
	if f.Devices != nil {
		if err := f.Devices.Release(ctx, uid); err != nil {
			return err
		}
	}
	if f.Plugins != nil {
		if err := f.Plugins.Release(types.UID(uid)); err != nil {
			return err
		}
	}
	if f.Drivers != nil {
		if err := errors.Join(f.clearSubPaths(uid), f.Drivers.Release(ctx, uid)); err != nil {
			return err
		}
	}
	if err := errors.Join(f.clearSubPaths(uid), os.RemoveAll(filepath.Join(directory, "complete"))); err != nil {
		return err
	}
	volumes, err := os.ReadDir(filepath.Join(directory, "volumes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, v := range volumes {
		if err := f.mounts.unmount(f.volumeDirectory(uid, v.Name())); err != nil {
			return fmt.Errorf("unmount volume %s of pod %s: %w", v.Name(), uid, err)
		}
	}
	f.tokens.forget(uid)
	f.certificates.forget(uid)
	f.objects.release(uid)
	// The directory of termination messages stays until Sweep, because the final status is made from it.
	return os.RemoveAll(filepath.Join(directory, "volumes"))
}

// Sweep removes the directories of pods that are gone.
func (f *Furnisher) Sweep(ctx context.Context, alive func(uid string) bool) error {
	pods, err := os.ReadDir(filepath.Join(f.Root, "pods"))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, p := range pods {
		if alive(p.Name()) {
			continue
		}
		if failed := f.Release(ctx, worker.Key{}, p.Name()); failed != nil {
			err = errors.Join(err, failed) // something may still be mounted below it
			continue
		}
		err = errors.Join(err, os.RemoveAll(f.podDirectory(p.Name())))
	}
	return err
}

// Sandbox sets a pod's host name and resolver, the users of its user namespace, and the way in which it is run.
func (f *Furnisher) Sandbox(ctx context.Context, spec *container.SandboxSpec) (err error) {
	if spec.Handler, err = f.handler(ctx, spec.Pod); err != nil {
		return err
	}
	if spec.Users, err = f.users(spec.Pod); err != nil {
		return err
	}
	spec.Hostname = hostname(spec.Pod)
	if sub := spec.Pod.Spec.Subdomain; sub != "" && spec.Pod.Spec.SetHostnameAsFQDN != nil && *spec.Pod.Spec.SetHostnameAsFQDN {
		spec.Hostname += "." + sub + "." + spec.Pod.Namespace + ".svc." + f.ClusterDomain
	}
	spec.DNS, err = f.resolver(spec.Pod)
	return err
}

// handler returns the runtime's name for the way in which a pod is run: its RuntimeClass has it. Pod Security may let
// pass what only such a way makes safe.
func (f *Furnisher) handler(ctx context.Context, pod *corev1.Pod) (string, error) {
	name := pod.Spec.RuntimeClassName
	if name == nil || *name == "" {
		return "", nil
	}
	if f.Kube == nil {
		return "", fmt.Errorf("RuntimeClass %q: %w", *name, ErrNoServer)
	}
	class, err := f.Kube.NodeV1().RuntimeClasses().Get(ctx, *name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("find the RuntimeClass of the pod: %w", err)
	}
	return class.Handler, nil
}

// longestHostname is the limit for a host name.
const longestHostname = 63

func hostname(pod *corev1.Pod) string {
	name := cmp.Or(pod.Spec.Hostname, pod.Name)
	return trimName(name[:min(len(name), longestHostname)])
}

func trimName(name string) string {
	for len(name) > 0 && (name[len(name)-1] == '-' || name[len(name)-1] == '.') {
		name = name[:len(name)-1]
	}
	return name
}
