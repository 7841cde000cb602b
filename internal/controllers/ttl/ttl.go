// Package ttl sets the node annotation node.alpha.kubernetes.io/ttl, which tells kubelets how many seconds they may
// cache Secrets and ConfigMaps: the more nodes, the longer.
//
// Guarantees: each node has the annotation for the current number of nodes. Near a limit between two values the current
// one is kept, so that one node that comes and goes does not cause writes to all others.
package ttl

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const name = "ttl-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"ttl"}, New: New}

// steps maps sizes of clusters to seconds. Neighbours overlap.
var steps = []struct{ least, most, seconds int64 }{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt64, 300},
}

type controller struct {
	kube  kubernetes.Interface
	nodes *informer.Shared[*corev1.Node]
	count atomic.Int64
	step  atomic.Int64
}

// New returns the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	t := &controller{kube: c.Kube, nodes: loop.Informer(c, informer.For(c.Kube.CoreV1().Nodes()))}
	return &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: t.sync, Watches: []loop.Watch{loop.Changes(t.nodes, t.changed)}}, nil
}

// changed counts the nodes, and wakes all of them when another step is reached. Kubernetes waits for the next heartbeat
// of each instead.
func (t *controller) changed(before, after *corev1.Node) []loop.Key {
	switch {
	case before == nil:
		t.count.Add(1)
	case after == nil:
		t.count.Add(-1)
	}
	n, step := t.count.Load(), t.step.Load()
	for n > steps[step].most {
		step++
	}
	for n < steps[step].least {
		step--
	}
	var keys []loop.Key
	if t.step.Swap(step) != step {
		for node := range t.nodes.List() {
			keys = append(keys, informer.KeyOf(node))
		}
	}
	if after != nil {
		keys = append(keys, informer.KeyOf(after))
	}
	return keys
}

func (t *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	node, ok := t.nodes.Lookup(key)
	wanted := strconv.FormatInt(steps[t.step.Load()].seconds, 10)
	if !ok || node.Annotations[corev1.ObjectTTLAnnotationKey] == wanted {
		return loop.Result{}, nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, corev1.ObjectTTLAnnotationKey, wanted)
	_, err := t.kube.CoreV1().Nodes().Patch(ctx, key.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return loop.Result{}, fmt.Errorf("annotate node %s: %w", key.Name, err)
	}
	return loop.Result{}, nil
}
