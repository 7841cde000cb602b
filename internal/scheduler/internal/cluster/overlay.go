package cluster

// Overlay changes the state temporarily: some pods are removed, others added. Filters use the changed state until Undo
// restores it.
//
// The log of changes does not contain the overlay's changes. So results that are kept must not be updated before Undo.
type Overlay struct {
	state   *State
	changes []podChange
}

// podChange is a pod that was added to a node or removed from it.
type podChange struct {
	pod  *Pod
	node *Node
	with bool
}

// Overlay returns an overlay without changes.
func (s *State) Overlay() *Overlay { return &Overlay{state: s} }

// With adds a pod to a node.
func (o *Overlay) With(pod *Pod, node *Node) { o.apply(podChange{pod, node, true}) }

// Without removes a pod from its node.
func (o *Overlay) Without(pod *Pod, node *Node) { o.apply(podChange{pod, node, false}) }

// Undo restores the state.
func (o *Overlay) Undo() {
	for i := len(o.changes) - 1; i >= 0; i-- {
		s := o.changes[i]
		s.with = !s.with
		o.carryOut(s)
	}
	o.changes = nil
}

func (o *Overlay) apply(s podChange) {
	o.carryOut(s)
	o.changes = append(o.changes, s)
}

func (o *Overlay) carryOut(s podChange) {
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
