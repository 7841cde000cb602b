package nodelifecycle

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

const name = "node-lifecycle-controller"

// Entry is this loop among the others, with Kubernetes' times.
var Entry = Options{}.Entry()

// Options are the times and limits of the loop. The zero value means Kubernetes' defaults.
type Options struct {
	// Grace is how long a node may be silent. 0 means 50 s.
	Grace time.Duration
	// StartupGrace is how long a new node may take until its first heartbeat. 0 means 60 s.
	StartupGrace time.Duration
	// Rate is how many nodes of a zone get a NoExecute taint per second. 0 means 0.1; a negative value means none.
	Rate float64
	// ReducedRate is the rate in a large zone in which most nodes fail. 0 means 0.01; a negative value means none. In a
	// small zone no pods are evicted then.
	ReducedRate float64
	// LargeZone is the number of nodes above which a zone is large. 0 means 50; with a negative value all zones are
	// large.
	LargeZone int
	// Unhealthy is the fraction of failing nodes from which most of a zone counts as failing. 0 means 0.55.
	Unhealthy float64
	// Metrics counts nodes and evictions.
	Metrics *Metrics
}

// Zone is the number of ready and of failing nodes of a zone.
type Zone struct{ Ready, Failing int }

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	o.Grace = cmp.Or(o.Grace, 50*time.Second)
	o.StartupGrace = cmp.Or(o.StartupGrace, time.Minute)
	o.Rate, o.ReducedRate = cmp.Or(o.Rate, 0.1), cmp.Or(o.ReducedRate, 0.01)
	o.LargeZone, o.Unhealthy = cmp.Or(o.LargeZone, 50), cmp.Or(o.Unhealthy, 0.55)
	return loop.Entry{Name: name, Aliases: []string{"nodelifecycle"}, Source: "node-controller", New: o.new}
}

// recheck is the delay before a taint that the rate did not allow is tried again, and the longest delay after an error.
const recheck = 5 * time.Second

type controller struct {
	options  Options
	alone    bool // the cluster is for one process alone
	kube     kubernetes.Interface
	recorder loop.Recorder
	now      func() time.Time
	nodes    *informer.Shared[*corev1.Node]
	leases   *informer.Shared[*coordinationv1.Lease]
	pods     *informer.Shared[*podview.Pod]
	zones    *zones

	mu    sync.Mutex // guards heard
	heard map[string]answer
}

// answer is a node's last heartbeat, and when we saw that it was new.
type answer struct {
	renewed   metav1.MicroTime // the lease's renew time
	heartbeat metav1.Time      // the heartbeat time of the condition Ready
	seen      time.Time
	// checked is when we last knew the state in the API. Silence counts only while the API can be reached.
	checked time.Time
	uid     types.UID
}

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	if o.Metrics == nil {
		o.Metrics = NewMetrics(meter.New(nil))
	}
	n := &controller{
		options: o, alone: c.Alone(), kube: c.Kube, recorder: c.Recorder, now: c.Now,
		nodes:  loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes())),
		leases: loop.Informer(c, informer.For(c.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease))),
		pods:   podview.Informer(c),
		zones:  newZones(o), heard: map[string]answer{},
	}
	o.Metrics.Count(n.zones.each)
	return &loop.Loop{
		Name: name, Clients: c, Workers: 8, Sync: n.sync,
		// A node that failed while the API was unavailable is given up soon after it is available again, as in
		// Kubernetes, which looks at all nodes every 5 seconds. With the usual delays that could take a quarter of an
		// hour.
		Queue: queue.Options[loop.Key]{MaxDelay: recheck, RetryRate: 100},
		// A renewed lease does not wake the loop: the node is synced when its grace period would have ended, and then
		// has more of it.
		Watches: []loop.Watch{loop.Self(n.nodes), loop.Reads(n.pods), loop.Changes(n.leases, n.renewed)},
	}, nil
}

// renewed stores the time of a renewal, and wakes nodes that send heartbeats again after they were marked unreachable.
func (n *controller) renewed(_, lease *coordinationv1.Lease) []loop.Key {
	if lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	n.mu.Lock()
	if known, ok := n.heard[lease.Name]; ok && !known.renewed.Equal(lease.Spec.RenewTime) {
		known.renewed, known.seen = *lease.Spec.RenewTime, n.now()
		known.checked = known.seen
		n.heard[lease.Name] = known
	}
	n.mu.Unlock()
	node, ok := n.nodes.Get("", lease.Name)
	if !ok {
		return nil
	}
	if ready := condition(node, corev1.NodeReady); ready != nil && ready.Status == corev1.ConditionUnknown {
		return []loop.Key{{Name: lease.Name}}
	}
	return nil
}

func (n *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	node, ok := n.nodes.Lookup(key)
	if !ok {
		n.forget(key)
		return loop.Result{}, nil
	}
	began := time.Now()
	defer func() { n.options.Metrics.Examined(time.Since(began)) }()
	if err := n.label(ctx, key, node); err != nil {
		return loop.Result{}, err
	}
	left := n.left(node)
	late := n.grace(node) - n.silence(n.grace(node))
	if left <= late {
		var err error
		if left, err = n.ask(ctx, node); err != nil {
			return loop.Result{}, err
		}
	}
	if left <= 0 {
		if gone := silenced(node, metav1.NewTime(n.now())); len(gone) > 0 {
			return loop.Result{}, n.giveUp(ctx, key, node, gone)
		}
	}
	ready := condition(node, corev1.NodeReady)
	n.zones.set(node.Name, standing{zoneOf(node), ready != nil && ready.Status == corev1.ConditionTrue})
	again, err := n.taint(ctx, key, node)
	if err != nil {
		return loop.Result{}, err
	}
	if ready != nil && ready.Status == corev1.ConditionUnknown {
		if err := n.markPods(ctx, node); err != nil {
			return loop.Result{}, err
		}
	}
	switch {
	case left <= 0:
		left = n.options.Grace // it is marked unreachable already; its status wakes us
	case left > late:
		left -= late // then the API is read
	}
	if again > 0 {
		left = min(left, again)
	}
	return loop.Result{After: left}, nil
}

// left returns the rest of a node's grace period.
func (n *controller) left(node *corev1.Node) time.Duration {
	now := n.now()
	ready := condition(node, corev1.NodeReady)
	last := answer{uid: node.UID}
	if ready != nil {
		last.heartbeat = ready.LastHeartbeatTime
	}
	if lease, ok := n.leases.Get(corev1.NamespaceNodeLease, node.Name); ok && lease.Spec.RenewTime != nil {
		last.renewed = *lease.Spec.RenewTime
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.heard[node.Name]
	switch {
	case !ok && ready == nil && last.renewed.IsZero():
		last.seen, last.checked = node.CreationTimestamp.Time, now
	case !ok || last.newer(known):
		last.seen, last.checked = now, now
	default:
		last = known
	}
	n.heard[node.Name] = last
	if !ok {
		n.recorder.Eventf(node, corev1.EventTypeNormal, "RegisteredNode", "Node %s event: Registered Node %s in Controller", node.Name, node.Name)
	}
	return last.seen.Add(n.grace(node)).Sub(now)
}

// newer reports whether an answer has a newer heartbeat than another one.
func (a *answer) newer(than answer) bool {
	return a.renewed.After(than.renewed.Time) || a.heartbeat.After(than.heartbeat.Time) || a.uid != than.uid
}

// grace returns how long a node may be silent.
func (n *controller) grace(node *corev1.Node) time.Duration {
	if condition(node, corev1.NodeReady) == nil {
		return n.options.StartupGrace
	}
	return n.options.Grace
}

// silence returns how long a node may be silent until it is read: half of its grace period, and more where no heartbeat
// gets lost on the way.
func (n *controller) silence(grace time.Duration) time.Duration {
	if n.alone {
		return grace * 3 / 4
	}
	return grace / 2
}

// ask reads the node's heartbeat from the API, because the caches may be behind, and returns the rest of its grace
// period. A silent node is read when it has been silent for a while and at the end of its grace period. If there was no
// answer for longer than that, the API was unavailable and nodes could not renew their leases, so their grace period
// starts again.
func (n *controller) ask(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	live, err := n.kube.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("look for a sign of life of node %s: %w", node.Name, err)
	}
	now, found := n.now(), answer{uid: live.UID}
	if ready := condition(live, corev1.NodeReady); ready != nil {
		found.heartbeat = ready.LastHeartbeatTime
	}
	lease, err := n.kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return 0, fmt.Errorf("look for the lease of node %s: %w", node.Name, err)
	case err == nil && lease.Spec.RenewTime != nil:
		found.renewed = *lease.Spec.RenewTime
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	known, grace := n.heard[node.Name], n.grace(node)
	found.seen, found.checked = known.seen, now
	if found.newer(known) || now.Sub(known.checked) > n.silence(grace)+grace/4 {
		found.seen = now
	}
	n.heard[node.Name] = found
	return found.seen.Add(grace).Sub(now), nil
}

func (n *controller) forget(key loop.Key) {
	n.zones.remove(key.Name)
	n.mu.Lock()
	defer n.mu.Unlock()
	if last, ok := n.heard[key.Name]; ok {
		delete(n.heard, key.Name)
		n.recorder.Eventf(&corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: key.Name, UID: last.uid},
			corev1.EventTypeNormal, "RemovingNode", "Node %s event: Removing Node %s from Controller", key.Name, key.Name)
	}
}

// zoneOf returns Kubernetes' name for the zone of a node: its region and its zone, or nothing if it has neither.
func zoneOf(node *corev1.Node) string {
	region, zone := node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone]
	if region == "" && zone == "" {
		return ""
	}
	return region + ":\x00:" + zone
}
