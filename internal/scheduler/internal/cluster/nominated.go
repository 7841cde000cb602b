package cluster

import "slices"

// nominations are the pods that are nominated to a node: they wait for capacity there.
type nominations struct {
	nodes  map[Key]string
	pods   map[string][]*Pod // by name of the node
	affine int               // the number of these pods with pod affinity or anti-affinity
}

// Nominate records that a pod is nominated to a node, or a newer version of such a pod.
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

// nominationsChanged records that other pods can use more or less of a node than before.
func (s *State) nominationsChanged(pod *Pod, node string, by int) {
	if pod.Shape != nil && pod.Shape.HasPodAffinity() {
		s.nominations.affine += by
	}
	if known, ok := s.byName[node]; ok {
		s.touch(known)
	}
}

// Unnominate removes a pod's nomination. It reports whether there was one.
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

// Nominated returns the name of the node to which a pod is nominated, or "".
func (s *State) Nominated(key Key) string { return s.nominations.nodes[key] }

// AnyNominated reports whether any pod is nominated.
func (s *State) AnyNominated() bool { return len(s.nominations.nodes) > 0 }

// AffineNominated reports whether a nominated pod has pod affinity or anti-affinity.
func (s *State) AffineNominated() bool { return s.nominations.affine > 0 }

// NominatedOn returns the pods that are nominated to a node.
func (s *State) NominatedOn(node string) []*Pod { return s.nominations.pods[node] }

// NominatedBefore returns those of them for which another pod must leave capacity: the ones with the same or a higher
// priority.
func (s *State) NominatedBefore(pod *Pod, node string) []*Pod {
	var before []*Pod
	for _, p := range s.nominations.pods[node] {
		if p.Key != pod.Key && p.Priority >= pod.Priority {
			before = append(before, p)
		}
	}
	return before
}
