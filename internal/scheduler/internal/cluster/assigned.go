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

// Assume places a pod on a node by the scheduler's decision. Observe confirms it, Forget undoes it.
func (s *State) Assume(pod *Pod, node *Node) { s.place(pod, node, true) }

// Observe records that the API shows a pod on a node, and returns what that changes.
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

// Refresh records a new version of an assumed pod that has no node in the API yet. It reports whether the pod is
// assumed.
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

// Forget undoes an assumption, because the binding has failed. A confirmed pod stays.
func (s *State) Forget(key Key, uid types.UID) bool {
	p, ok := s.placed[key]
	if !ok || !p.assumed || p.pod.UID != uid {
		return false
	}
	s.unplace(p)
	return true
}

// Remove removes a pod that was deleted or has ended. It returns its node.
func (s *State) Remove(key Key) (*Node, bool) {
	p, ok := s.placed[key]
	if !ok {
		return nil, false
	}
	s.unplace(p)
	return p.node, true
}

// Placed returns a placed pod, its node, and whether that is assumed.
func (s *State) Placed(key Key) (pod *Pod, node *Node, assumed, ok bool) {
	p, ok := s.placed[key]
	if !ok {
		return nil, nil, false, false
	}
	return p.pod, p.node, p.assumed, true
}

// Assumed returns the number of placed pods that no watch has shown yet.
func (s *State) Assumed() int {
	n := 0
	for _, p := range s.placed {
		if p.assumed {
			n++
		}
	}
	return n
}

// PlacedPods returns the number of placed pods.
func (s *State) PlacedPods() int { return len(s.placed) }

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
		// The node is in use meanwhile, so its slot is not freed.
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

// HasBelow reports whether a placed pod has a lower priority.
func (s *State) HasBelow(priority int32) bool {
	for p := range s.priorities {
		if p < priority {
			return true
		}
	}
	return false
}
