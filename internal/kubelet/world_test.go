package kubelet

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/runtimetest"
	"github.com/millrace/millrace/loop"
)

// world is a kubelet in a synctest bubble, with a fake runtime and a fake API.
type world struct {
	t       *testing.T
	kube    *fake.Clientset
	runtime *slowRuntime
	kubelet *Kubelet
	options Options // besides those that each test has

	mu           sync.Mutex // guards what follows
	memory, disk uint64     // available memory and disk in MiB, of 1000
}

// slowRuntime is a runtime whose usage requests can hang.
type slowRuntime struct {
	*runtimetest.Runtime
	mu      sync.Mutex // guards what follows
	stuck   bool       // the next request hangs until its context ends
	used    map[string]container.Usage
	devices map[string][]string // devices of the containers, by name
	env     map[string]string   // of all containers
}

// Create implements container.Runtime.
func (r *slowRuntime) Create(ctx context.Context, sandbox string, spec *container.Spec) (string, error) {
	r.mu.Lock()
	r.devices[spec.Container.Name] = spec.Devices
	for _, v := range spec.Env {
		if r.env != nil {
			r.env[v.Name] = v.Value
		}
	}
	r.mu.Unlock()
	return r.Runtime.Create(ctx, sandbox, spec)
}

func (r *slowRuntime) devicesOf(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.devices[name]
}

// Usages implements container.StatsSource.
func (r *slowRuntime) Usages(ctx context.Context) (map[string]container.Usage, error) {
	r.mu.Lock()
	stuck := r.stuck
	r.stuck = false
	r.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return r.Runtime.Usages(ctx)
}

// onNode runs a test in a bubble, on a registered node with plenty of resources.
func onNode(t *testing.T, before func(*world), test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, kube: fake.NewClientset(), runtime: &slowRuntime{Runtime: runtimetest.New(), used: map[string]container.Usage{}, devices: map[string][]string{}}, memory: 900, disk: 900}
		if before != nil {
			before(w)
		}
		clients := loop.ClientsFor(w.kube)
		var err error
		o := w.options
		o.Clients, o.Name, o.Runtime, o.Root, o.Addresses = clients, "node", w.runtime, t.TempDir(), []string{"10.0.0.1"}
		o.SecretsOnDisk = true
		w.kubelet, err = New(o)
		if err != nil {
			t.Fatal(err)
		}
		w.kubelet.measure = measures{
			memory: func(context.Context) levels { return levels{pressure.Memory: w.level(&w.memory)} },
			disk:   func(context.Context) levels { return levels{pressure.Disk: w.level(&w.disk)} },
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
		pass(3 * time.Second)
		test(t, w)
	})
}

const mib = 1 << 20

func (w *world) level(available *uint64) pressure.Level {
	w.mu.Lock()
	defer w.mu.Unlock()
	return pressure.Level{Available: *available * mib, Capacity: 1000 * mib}
}

// leave sets how many MiB of memory and disk are left.
func (w *world) leave(memory, disk uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memory, w.disk = memory, disk
}

// pass advances virtual time.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func podOf(name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.NodeName, p.Spec.RestartPolicy = "node", corev1.RestartPolicyAlways
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "web:1"}}
	p.Status.QOSClass = corev1.PodQOSBestEffort
	for _, e := range edit {
		e(p)
	}
	return p
}

// asking sets a pod's memory request.
func asking(memory string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		p.Status.QOSClass = corev1.PodQOSBurstable
	}
}

func (w *world) create(p *corev1.Pod) {
	w.t.Helper()
	if _, err := w.kube.CoreV1().Pods(p.Namespace).Create(w.t.Context(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	pass(5 * time.Second)
}

// pod returns a pod as the API shows it, or nil.
func (w *world) pod(name string) *corev1.Pod {
	p, err := w.kube.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// phase returns the phase of a pod and its reason.
func (w *world) phase(name string) string {
	p := w.pod(name)
	if p == nil {
		return "gone"
	}
	return string(p.Status.Phase) + " " + p.Status.Reason
}

// uses sets the memory usage of a pod's container in MiB.
func (w *world) uses(name string, memory int64) {
	w.t.Helper()
	pods, err := w.runtime.Pods(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range pods {
		for _, run := range p.Containers {
			if p.Name == name {
				set := uint64(memory) * mib
				w.runtime.used[run.ID] = container.Usage{ID: run.ID, At: time.Now(), WorkingSet: &set}
			}
		}
	}
	w.runtime.SetAnswers(runtimetest.Answers{Usages: w.runtime.used})
}

// pressed reports whether the node has a pressure condition.
func (w *world) pressed(condition corev1.NodeConditionType) bool {
	w.t.Helper()
	return w.condition(condition).Status == corev1.ConditionTrue
}
