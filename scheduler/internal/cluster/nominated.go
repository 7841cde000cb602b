package cluster

import "slices"

// nominations are the pods that wait for room on a node that is being made for them.
type nominations struct {
	nodes  map[Key]string
	pods   map[string][]*Pod // by name of the node
	affine int               // how many of these pods care which pods are near them
}

// Nominate notes that a pod waits for room on a node, or a newer version of such a pod.
func (s *State) Nominate(pod *Pod, node string) {
	s.Unnominate(pod.Key)
	n := &s.nominations
	if n.nodes == nil {
		n.nodes, n.pods = make(map[Key]string), make(map[string][]*Pod)
	}
	n.nodes[pod.Key] = node
	n.pods[node] = append(n.pods[node], pod)
	s.nominationsChanged(pod, node, 1)
}

// nominationsChanged notes that a node has something else to offer to pods that others leave for.
func (s *State) nominationsChanged(pod *Pod, node string, by int) {
	if pod.Shape != nil && pod.Shape.HasPodAffinity() {
		s.nominations.affine += by
	}
	if known, ok := s.byName[node]; ok {
		s.touch(known)
	}
}

// Unnominate forgets that a pod waits for a node. It says whether it did.
func (s *State) Unnominate(key Key) bool {
	n := &s.nominations
	node, ok := n.nodes[key]
	if !ok {
		return false
	}
	delete(n.nodes, key)
	i := slices.IndexFunc(n.pods[node], func(p *Pod) bool { return p.Key == key })
	pod := n.pods[node][i]
	if n.pods[node] = slices.Delete(n.pods[node], i, i+1); len(n.pods[node]) == 0 {
		delete(n.pods, node)
	}
	s.nominationsChanged(pod, node, -1)
	return true
}

// Nominated returns the name of the node that a pod waits for; nothing if it waits for none.
func (s *State) Nominated(key Key) string { return s.nominations.nodes[key] }

// AnyNominated says whether a pod waits for a node.
func (s *State) AnyNominated() bool { return len(s.nominations.nodes) > 0 }

// AffineNominated says whether a pod that waits for a node cares which pods are near it.
func (s *State) AffineNominated() bool { return s.nominations.affine > 0 }

// NominatedOn returns the pods that wait for room on a node.
func (s *State) NominatedOn(node string) []*Pod { return s.nominations.pods[node] }

// NominatedBefore returns those among them that another pod must leave room for: the ones of its priority or a higher one.
func (s *State) NominatedBefore(pod *Pod, node string) []*Pod {
	var before []*Pod
	for _, p := range s.nominations.pods[node] {
		if p.Key != pod.Key && p.Priority >= pod.Priority {
			before = append(before, p)
		}
	}
	return before
}
