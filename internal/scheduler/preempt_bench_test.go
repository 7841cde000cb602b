package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// evictions is a ledger that deletes victims at once, and records when pods get their nodes.
type evictions struct {
	source *informertest.Source[*corev1.Pod]

	mu    sync.Mutex
	pods  map[cluster.Key]*corev1.Pod // guarded by mu
	added map[cluster.Key]time.Time   // guarded by mu
	waits map[string][]time.Duration  // guarded by mu: of bound pods, by their label
	left  sync.WaitGroup
	begun chan struct{} // closed with the first binding
}

func (e *evictions) add(pod *corev1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	pod = e.source.Add(pod)
	e.pods[keyOf(pod.Name)], e.added[keyOf(pod.Name)] = pod, time.Now()
}

// first adds a pod, and waits until it has its node: then the scheduler is working.
func (e *evictions) first(pod *corev1.Pod) {
	e.begun = make(chan struct{})
	e.add(pod)
	<-e.begun
}

func (e *evictions) Bind(_ context.Context, pod *cluster.Pod, node string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := e.pods[pod.Key]
	if object == nil {
		return apierrors.NewNotFound(podResource, pod.Key.Name)
	}
	object.Spec.NodeName = node
	e.source.Modify(object)
	if len(e.waits) == 0 {
		close(e.begun)
	}
	kind := object.Labels["app"]
	e.waits[kind] = append(e.waits[kind], time.Since(e.added[pod.Key]))
	e.left.Done()
	return nil
}

func (e *evictions) Read(_ context.Context, key cluster.Key) (*corev1.Pod, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pods[key], nil
}

// Report shows the nominated node, as the API does.
func (e *evictions) Report(_ context.Context, pod *cluster.Pod, status Status) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := e.pods[pod.Key]
	if object == nil || object.Spec.NodeName != "" {
		return nil
	}
	if status.Condition != nil {
		setCondition(object, *status.Condition)
	}
	if status.NominatedNode != nil {
		object.Status.NominatedNodeName = *status.NominatedNode
	}
	e.pods[pod.Key] = e.source.Modify(object)
	return nil
}

func (e *evictions) Preempt(_ context.Context, victim *cluster.Pod, _ corev1.PodCondition) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := e.pods[victim.Key]
	if object == nil {
		return apierrors.NewNotFound(podResource, victim.Key.Name)
	}
	e.source.Delete(object)
	delete(e.pods, victim.Key)
	return nil
}

// BenchmarkPreempt lets 1,000 pods preempt others among 20,000, while 2,000 ordinary pods arrive, one each millisecond,
// for which there is capacity elsewhere. It reports the number of preempting pods per second, and how long ordinary
// pods wait. Every other one is more important than the preempting pods, and waits as long as one of them holds up the
// scheduler; the others have their turn after all the preempting pods that wait.
func BenchmarkPreempt(b *testing.B) {
	const full, each, free, high, ordinary = 5000, 4, 100, 1000, 2000
	orders := []struct {
		name     string
		priority int32
	}{{"ahead", 20}, {"behind", 0}}
	for b.Loop() {
		w := newWorld()
		e := &evictions{
			source: w.pods, pods: make(map[cluster.Key]*corev1.Pod), added: make(map[cluster.Key]time.Time), waits: make(map[string][]time.Duration),
		}
		for i := range full {
			name := fmt.Sprintf("full-%05d", i)
			w.nodes.Add(testNode(name, "4"))
			for j := range each {
				e.add(running(fmt.Sprintf("low-%05d-%d", i, j), "1", 0, name, 1))
			}
		}
		for i := range free {
			node := testNode(fmt.Sprintf("free-%05d", i), "64")
			node.Labels["free"] = "yes"
			w.nodes.Add(node)
		}
		e.left.Add(1 + high + ordinary)
		ctx, cancel := context.WithCancel(b.Context())
		var running sync.WaitGroup
		options := Options{API: e, Watched: Watched{
			Pods:  informer.New(w.pods, informer.Options[*corev1.Pod]{}),
			Nodes: informer.New(w.nodes, informer.Options[*corev1.Node]{}),
		}}
		for _, run := range []func(context.Context) error{options.Watched.Pods.Run, options.Watched.Nodes.Run, New(options).Run} {
			running.Go(func() { _ = run(ctx) })
		}
		e.first(testPod("first", "10m"))
		for i := range high {
			pod := ranked(fmt.Sprintf("high-%05d", i), "1", 10)
			pod.Labels = map[string]string{"app": "high"}
			pod.Spec.Affinity = away()
			e.add(pod)
		}
		every := time.NewTicker(time.Millisecond)
		for i := range ordinary {
			<-every.C
			order := orders[i%len(orders)]
			pod := ranked(fmt.Sprintf("ordinary-%05d", i), "10m", order.priority)
			pod.Labels = map[string]string{"app": order.name}
			e.add(pod)
		}
		every.Stop()
		e.left.Wait()
		cancel()
		running.Wait()
		highest := slices.Max(e.waits["high"])
		b.ReportMetric(high/highest.Seconds(), "preemptions/s")
		for _, order := range orders {
			waits := e.waits[order.name]
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, order.name+"-p99-ms")
			b.ReportMetric(float64(waits[len(waits)-1].Microseconds())/1000, order.name+"-most-ms")
		}
	}
}

// away keeps pods off the nodes with free capacity.
func away() *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "free", Operator: corev1.NodeSelectorOpDoesNotExist,
		}}}},
	}}}
}
