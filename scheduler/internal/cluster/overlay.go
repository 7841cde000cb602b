package cluster

// Overlay is the state as it would be without some pods and with others. Filters that are asked while it is there answer for
// that state. Undo takes everything back.
//
// The log of changes does not show an overlay, so nobody may take kept results up to date before Undo.
type Overlay struct {
	state *State
	steps []step
}

// step is a pod that was put on a node, or taken away from it.
type step struct {
	pod  *Pod
	node *Node
	with bool
}

// Overlay returns an overlay that changes nothing yet.
func (s *State) Overlay() *Overlay { return &Overlay{state: s} }

// With puts a pod on a node.
func (o *Overlay) With(pod *Pod, node *Node) { o.apply(step{pod, node, true}) }

// Without takes away a pod that is on the node.
func (o *Overlay) Without(pod *Pod, node *Node) { o.apply(step{pod, node, false}) }

// Undo brings the state back to what it was without the overlay.
func (o *Overlay) Undo() {
	for i := len(o.steps) - 1; i >= 0; i-- {
		s := o.steps[i]
		s.with = !s.with
		o.carryOut(s)
	}
	o.steps = nil
}

func (o *Overlay) apply(s step) {
	o.carryOut(s)
	o.steps = append(o.steps, s)
}

func (o *Overlay) carryOut(s step) {
	by := 1
	if s.with {
		s.node.add(s.pod)
	} else {
		s.node.remove(s.pod)
		by = -1
	}
	o.state.countClaims(s.pod, by)
	if s.pod.Shape.HasPodAffinity() {
		o.state.countAffinity(s.pod.Shape, by)
	}
}
