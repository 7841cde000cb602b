package preemption

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// board is a state in which each node has capacity for full pods.
type board struct {
	state   cluster.State
	reader  cluster.Interner
	random  *rand.Rand
	budgets []Budget
	stand   BudgetVersion
	pods    int
}

const full = 3

func (b *board) pod(node string) *cluster.Pod {
	b.pods++
	name, priority := fmt.Sprint("pod-", b.pods), int32(b.random.IntN(4))
	return b.reader.Pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": fmt.Sprint(b.random.IntN(3))}},
		Spec: corev1.PodSpec{NodeName: node, Priority: &priority, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}}},
	})
}

// step makes a change: a pod is added or removed, or a budget changes.
func (b *board) step(nodes int) {
	name := fmt.Sprint("node-", b.random.IntN(nodes))
	node, _ := b.state.NodeNamed(name)
	switch b.random.IntN(4) {
	case 0, 1:
		if node.Pods < full {
			b.state.Observe(b.pod(name))
		}
	case 2:
		if below := node.Below(100); len(below) > 0 {
			b.state.Remove(below[b.random.IntN(len(below))].Key)
		}
	case 3:
		app := fmt.Sprint(b.random.IntN(3))
		selector := labels.SelectorFromSet(labels.Set{"app": app})
		at := slices.IndexFunc(b.budgets, func(o Budget) bool { return o.Selector.String() == selector.String() })
		b.stand.Counts++
		if at < 0 {
			b.budgets = append(b.budgets, Budget{Namespace: "ns", Selector: selector})
			b.stand.Sets++
			return
		}
		b.budgets[at].Allowed = int32(b.random.IntN(3))
	}
}

// A search with a cache never finds less than one that checks all nodes.
func TestWhatIsKeptIsWhatLookingAgainWouldFind(t *testing.T) {
	b := &board{random: rand.New(rand.NewPCG(randomly.Seed(t), 0))}
	const nodes = 20
	for i := range nodes {
		b.state.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}})
	}
	var all []*cluster.Node
	for node := range b.state.All() {
		all = append(all, node)
	}
	kept := &CandidateCache{}
	for range 2000 {
		b.step(nodes)
		crowded := slices.DeleteFunc(slices.Clone(all), func(n *cluster.Node) bool { return n.Pods < full })
		search := &Search{
			State: &b.state, Pod: &cluster.Pod{Priority: 3, Shape: &cluster.Shape{}}, Budgets: b.budgets,
			Filter: func(n *cluster.Node) *plugin.Verdict {
				if n.Pods < full {
					return nil
				}
				return &plugin.Verdict{Reasons: []string{"full"}}
			},
		}
		want, _ := search.Run(crowded)
		kept.Refresh(&b.state, b.stand)
		search.Cache, search.Enough = kept, nodes
		got, _ := search.Run(crowded)
		if (want == nil) != (got == nil) || want != nil && (better(want, got) || better(got, want)) {
			t.Fatalf("looking at all nodes finds %+v, what was kept %+v", want, got)
		}
	}
}
