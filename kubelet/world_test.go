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

	"github.com/millrace/millrace/kubelet/container"
	"github.com/millrace/millrace/kubelet/pressure"
	"github.com/millrace/millrace/kubelet/runtimetest"
	"github.com/millrace/millrace/loop"
)

// world is a kubelet in a bubble, on a runtime that is pretended, with a client of an API that is one, too.
type world struct {
	t       *testing.T
	kube    *fake.Clientset
	runtime *slowRuntime
	kubelet *Kubelet

	mu           sync.Mutex // guards what follows
	memory, disk uint64     // available, in MiB of 1000
}

// slowRuntime is a runtime that can take its time to say what containers use.
type slowRuntime struct {
	*runtimetest.Runtime
	mu    sync.Mutex // guards stuck
	stuck bool       // the next question waits until whoever asks gives up
	used  map[string]container.Usage
}

// Usages implements container.Meter.
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

// onNode runs a test in a bubble, on a node that has registered and has plenty of everything.
func onNode(t *testing.T, before func(*world), test func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, kube: fake.NewClientset(), runtime: &slowRuntime{Runtime: runtimetest.New(), used: map[string]container.Usage{}}, memory: 900, disk: 900}
		if before != nil {
			before(w)
		}
		clients := loop.ClientsFor(w.kube)
		var err error
		w.kubelet, err = New(Options{Clients: clients, Name: "node", Runtime: w.runtime, Root: t.TempDir(), Addresses: []string{"10.0.0.1"}})
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

// pass lets time pass: in a bubble, no time at all.
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

// asking makes a pod ask for memory.
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

// pod is a pod as the API shows it, or nil.
func (w *world) pod(name string) *corev1.Pod {
	p, err := w.kube.CoreV1().Pods("default").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

// phase is the phase of a pod, and the reason for it.
func (w *world) phase(name string) string {
	p := w.pod(name)
	if p == nil {
		return "gone"
	}
	return string(p.Status.Phase) + " " + p.Status.Reason
}

// uses sets how many MiB of memory the container of a pod uses.
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
	w.runtime.Say(runtimetest.Said{Usages: w.runtime.used})
}

// pressed tells whether the node says that it is short of something.
func (w *world) pressed(condition corev1.NodeConditionType) bool {
	w.t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(w.t.Context(), "node", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
