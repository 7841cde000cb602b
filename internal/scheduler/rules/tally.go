package rules

import (
	"math"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// tally adds the weights of pods for each value of one node label (each zone, each host). It reads only nodes that have
// changed. A pod's weight depends on its shape alone and is computed once.
type tally struct {
	state  *cluster.State
	key    string
	weigh  func(*cluster.Shape) int64
	counts func(*cluster.Node) bool // whether a node's pods count; nil: those of all nodes do
	ending bool                     // terminating pods count too

	known   map[*cluster.Shape]int64
	ids     map[string]int32
	nodes   []tallied // by index of the node
	domains []domain

	total    int64 // over all domains
	occupied int   // domains with a node that counts
	low      int64 // the lowest sum of these domains
	atLow    int   // how many domains have it; 0: must be searched for

	epoch uint64
}

// tallied is the contribution of one node.
type tallied struct {
	domain int32 // noDomain: the node lacks the label
	counts bool
	weight int64
}

type domain struct {
	sum   int64
	nodes int32 // nodes that count
}

const noDomain = -1

func newTally(state *cluster.State, key string, weigh func(*cluster.Shape) int64) *tally {
	return &tally{state: state, key: key, weigh: weigh, known: make(map[*cluster.Shape]int64), ids: make(map[string]int32)}
}

// refresh reads the nodes that have changed.
func (t *tally) refresh(changed []int32) {
	for len(t.nodes) < t.state.Slots() {
		t.nodes = append(t.nodes, tallied{domain: noDomain})
	}
	for _, i := range changed {
		t.set(int(i), t.look(t.state.Node(int(i))))
	}
}

func (t *tally) look(node *cluster.Node) tallied {
	if node == nil || !node.Present {
		return tallied{domain: noDomain}
	}
	value, ok := node.Labels[t.key]
	if !ok {
		return tallied{domain: noDomain}
	}
	n := tallied{domain: t.domain(value), counts: t.counts == nil || t.counts(node)}
	if !n.counts {
		return n
	}
	for i := range node.Residents {
		r := &node.Residents[i]
		if !r.Ending || t.ending {
			n.weight += t.weight(r.Shape) * int64(r.Count)
		}
	}
	return n
}

func (t *tally) domain(value string) int32 {
	id, ok := t.ids[value]
	if !ok {
		id = int32(len(t.domains))
		t.ids[value] = id
		t.domains = append(t.domains, domain{})
	}
	return id
}

func (t *tally) weight(shape *cluster.Shape) int64 {
	w, ok := t.known[shape]
	if !ok {
		if len(t.known) > 4096 {
			clear(t.known) // most of these shapes have no pods any more
		}
		w = t.weigh(shape)
		t.known[shape] = w
	}
	return w
}

// set replaces a node's contribution. The epoch changes if other nodes may be affected.
func (t *tally) set(i int, now tallied) {
	was := t.nodes[i]
	if was == now {
		return
	}
	t.nodes[i] = now
	if was.domain != now.domain || was.counts != now.counts {
		t.epoch++
	} else if now.domain != noDomain && t.domains[now.domain].nodes > 1 {
		t.epoch++
	}
	if was.counts && was.domain == now.domain && now.counts {
		t.shift(now.domain, now.weight-was.weight, 0)
		return
	}
	if was.counts {
		t.shift(was.domain, -was.weight, -1)
	}
	if now.counts {
		t.shift(now.domain, now.weight, 1)
	}
}

// shift changes a domain's sum and the number of its nodes, and updates the lowest sum.
func (t *tally) shift(id int32, weight int64, nodes int32) {
	d := &t.domains[id]
	if d.nodes > 0 {
		t.occupied--
		if d.sum == t.low {
			t.atLow--
		}
	}
	d.sum += weight
	d.nodes += nodes
	t.total += weight
	if d.nodes == 0 {
		return
	}
	t.occupied++
	switch {
	case t.atLow > 0 && d.sum < t.low:
		t.low, t.atLow = d.sum, 1
	case t.atLow > 0 && d.sum == t.low:
		t.atLow++
	}
}

// lowest returns the lowest sum of the domains with nodes that count.
func (t *tally) lowest() int64 {
	if t.atLow > 0 {
		return t.low
	}
	t.low, t.atLow = math.MaxInt64, 0
	for i := range t.domains {
		d := &t.domains[i]
		switch {
		case d.nodes == 0 || d.sum > t.low:
		case d.sum == t.low:
			t.atLow++
		default:
			t.low, t.atLow = d.sum, 1
		}
	}
	return t.low
}

// at returns the sum of a node's domain, or false if it lacks the label.
func (t *tally) at(node int) (int64, bool) {
	id := t.nodes[node].domain
	if id == noDomain {
		return 0, false
	}
	return t.domains[id].sum, true
}
