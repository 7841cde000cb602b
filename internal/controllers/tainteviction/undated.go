package tainteviction

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sightings are when taints were seen first that do not say when they were added, those that a user has made, or that
// say it was in the future: then the clock of who added them is ahead, or ours was set back.
type sightings struct {
	mu    sync.Mutex // guards nodes
	nodes map[string]map[corev1.Taint]time.Time
}

// date gives times to the taints of a node, and forgets those that it has no more.
func (s *sightings) date(node string, taints []corev1.Taint, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[corev1.Taint]time.Time{}
	for i := range taints {
		added, taint := taints[i].TimeAdded, taints[i]
		taint.TimeAdded = nil
		at, known := s.nodes[node][taint]
		if !known {
			at = now
		}
		if added != nil && !added.After(at) {
			continue
		}
		seen[taint] = at
		taints[i].TimeAdded = &metav1.Time{Time: at}
	}
	if len(seen) == 0 {
		delete(s.nodes, node)
		return
	}
	if s.nodes == nil {
		s.nodes = map[string]map[corev1.Taint]time.Time{}
	}
	s.nodes[node] = seen
}
