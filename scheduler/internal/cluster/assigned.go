package cluster

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

type placement struct {
	pod     *Pod
	node    *Node
	assumed bool
}

// Assume places a pod on a node on the scheduler's own word, to be confirmed by Observe or taken back by Forget.
func (s *State) Assume(pod *Pod, node *Node) { s.place(pod, node, true) }

// Observe takes in that the API shows a pod on a node, and says what that changes.
func (s *State) Observe(pod *Pod) Change {
	old, known := s.placed[pod.Key]
	if known && old.node.Name == pod.Node && old.pod.UID == pod.UID &&
		old.pod.Shape == pod.Shape && old.pod.Terminating == pod.Terminating {
		assumed := old.assumed
		old.pod, old.assumed = pod, false
		if assumed {
			return PodPlaced
		}
		return 0
	}
	var change Change
	switch {
	case !known:
		change = PodPlaced
	case old.pod.UID != pod.UID || old.node.Name != pod.Node:
		change = PodGone | PodPlaced
	default:
		change = PodGone | PodChanged
	}
	s.place(pod, s.node(pod.Node), false)
	return change
}

// Refresh takes in a new version of a pod that is assumed while the API does
// not show its node yet. It says whether the pod is known as assumed.
func (s *State) Refresh(pod *Pod) bool {
	p, ok := s.placed[pod.Key]
	if !ok || !p.assumed || p.pod.UID != pod.UID {
		return false
	}
	if p.pod.Shape != pod.Shape || p.pod.Terminating != pod.Terminating {
		s.place(pod, p.node, true)
	}
	return true
}

// Forget takes back an assumption, because the binding is known not to be. A pod that has been confirmed stays.
func (s *State) Forget(key Key, uid types.UID) bool {
	p, ok := s.placed[key]
	if !ok || !p.assumed || p.pod.UID != uid {
		return false
	}
	s.unplace(p)
	return true
}

// Remove takes in that a pod has gone, or has come to its end. It returns the node that it was on.
func (s *State) Remove(key Key) (*Node, bool) {
	p, ok := s.placed[key]
	if !ok {
		return nil, false
	}
	s.unplace(p)
	return p.node, true
}

// Placed returns what is known of a pod's place.
func (s *State) Placed(key Key) (pod *Pod, node *Node, assumed, ok bool) {
	p, ok := s.placed[key]
	if !ok {
		return nil, nil, false, false
	}
	return p.pod, p.node, p.assumed, true
}

// Assumed is the number of pods whose place no watch has shown yet.
func (s *State) Assumed() int {
	n := 0
	for _, p := range s.placed {
		if p.assumed {
			n++
		}
	}
	return n
}

// Pods ranges over the placed pods and their nodes.
func (s *State) Pods() iter.Seq2[*Pod, *Node] {
	return func(yield func(*Pod, *Node) bool) {
		for _, p := range s.placed {
			if !yield(p.pod, p.node) {
				return
			}
		}
	}
}

func (s *State) place(pod *Pod, node *Node, assumed bool) {
	if old, ok := s.placed[pod.Key]; ok {
		// The node is held, so that leaving it and coming back does not free its slot.
		node.Pods++
		s.unplace(old)
		node.Pods--
	}
	if s.placed == nil {
		s.placed = make(map[Key]*placement)
	}
	p := &placement{pod: pod, node: node, assumed: assumed}
	s.placed[pod.Key] = p
	node.placed = append(node.placed, p)
	s.countPriority(pod.Priority, 1)
	s.Unnominate(pod.Key)
	node.add(pod)
	s.countClaims(pod, 1)
	if pod.Shape.HasPodAffinity() {
		s.countAffinity(pod.Shape, 1)
	}
	s.touch(node)
}

func (s *State) unplace(p *placement) {
	delete(s.placed, p.pod.Key)
	i := slices.Index(p.node.placed, p)
	p.node.placed = slices.Delete(p.node.placed, i, i+1)
	s.countPriority(p.pod.Priority, -1)
	p.node.remove(p.pod)
	s.countClaims(p.pod, -1)
	if p.pod.Shape.HasPodAffinity() {
		s.countAffinity(p.pod.Shape, -1)
	}
	s.touch(p.node)
	s.release(p.node)
}

func (s *State) countPriority(priority int32, by int) {
	if s.priorities == nil {
		s.priorities = make(map[int32]int)
	}
	if s.priorities[priority] += by; s.priorities[priority] == 0 {
		delete(s.priorities, priority)
	}
}

// HasBelow says whether a placed pod has a lower priority.
func (s *State) HasBelow(priority int32) bool {
	for p := range s.priorities {
		if p < priority {
			return true
		}
	}
	return false
}
