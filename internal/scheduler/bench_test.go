package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// ledger is an API that binds at once and reports that to the watch.
type ledger struct {
	source *informertest.Source[*corev1.Pod]

	mu   sync.Mutex
	pods map[cluster.Key]*corev1.Pod // guarded by mu
	left sync.WaitGroup
}

func (l *ledger) Bind(_ context.Context, pod *cluster.Pod, node string) error {
	l.mu.Lock()
	object := l.pods[pod.Key]
	l.mu.Unlock()
	if object.Spec.NodeName != "" {
		return apierrors.NewConflict(podResource, pod.Key.Name, fmt.Errorf("already assigned"))
	}
	object.Spec.NodeName = node
	l.source.Modify(object)
	l.left.Done()
	return nil
}

func (l *ledger) Read(_ context.Context, key cluster.Key) (*corev1.Pod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[key], nil
}

func (l *ledger) Report(context.Context, *cluster.Pod, Status) error { return nil }

func (l *ledger) Preempt(context.Context, *cluster.Pod, corev1.PodCondition) error { return nil }

// BenchmarkSchedule measures pods from the watch to the watch: everything but the server and the connection.
func BenchmarkSchedule(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("plain/nodes=%d", nodes), func(b *testing.B) {
			benchmarkSchedule(b, nodes, func(*corev1.Pod) {})
		})
		b.Run(fmt.Sprintf("zones/nodes=%d", nodes), func(b *testing.B) {
			benchmarkSchedule(b, nodes, func(pod *corev1.Pod) {
				pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
				}}
			})
		})
	}
}

func benchmarkSchedule(b *testing.B, nodes int, set func(*corev1.Pod)) {
	w := newWorld()
	for i := range nodes {
		node := testNode(fmt.Sprintf("node-%05d", i), "64")
		node.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
		w.nodes.Add(node)
	}
	l := &ledger{source: w.pods, pods: make(map[cluster.Key]*corev1.Pod)}
	for i := range b.N {
		pod := testPod(fmt.Sprintf("pod-%07d", i), "10m")
		pod.Labels = map[string]string{"app": "web"}
		set(pod)
		pod = w.pods.Add(pod)
		l.pods[keyOf(pod.Name)] = pod
	}
	l.left.Add(b.N)
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	options := Options{API: l, Watched: Watched{
		Pods:  informer.New(w.pods, informer.Options[*corev1.Pod]{}),
		Nodes: informer.New(w.nodes, informer.Options[*corev1.Node]{}),
	}}
	begun, cpu := time.Now(), cputime.Process()
	b.ResetTimer()
	for _, run := range []func(context.Context) error{options.Watched.Pods.Run, options.Watched.Nodes.Run, New(options).Run} {
		running.Go(func() { _ = run(ctx) })
	}
	l.left.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "pods/s")
	b.ReportMetric(float64(cputime.Process()-cpu)/float64(b.N), "cpu-ns/op")
	cancel()
	running.Wait()
}
