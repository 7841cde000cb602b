package tainteviction

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/podview"
)

// sightings are when, by our own clock, taints were added and pods got their nodes. The times in objects come from
// other clocks: if such a clock is behind ours, pods would be evicted early, and if it is ahead, late or never. They
// count only for what was there before this process was.
type sightings struct {
	mu    sync.Mutex // guards what follows
	begun bool       // what comes now is new
	nodes map[string]map[corev1.Taint]time.Time
	pods  map[types.UID]time.Time
}

// begin says that everything which was there at the start has been received.
func (s *sightings) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = true
}

// added notes the taints that a node has and did not have, or had since another time.
func (s *sightings) added(node string, before, after []corev1.Taint, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, taint := range after {
		same := func(b corev1.Taint) bool { return undated(b) == undated(taint) && b.TimeAdded.Equal(taint.TimeAdded) }
		if !slices.ContainsFunc(before, same) {
			s.noteLocked(node, undated(taint), now)
		}
	}
}

func (s *sightings) noteLocked(node string, taint corev1.Taint, at time.Time) {
	if s.nodes[node] == nil {
		s.nodes[node] = map[corev1.Taint]time.Time{}
	}
	s.nodes[node][taint] = at
}

func undated(taint corev1.Taint) corev1.Taint {
	taint.TimeAdded = nil
	return taint
}

// date gives times to the taints of a node, and forgets those that it has no more.
func (s *sightings) date(node string, taints []corev1.Taint, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.nodes[node]
	delete(s.nodes, node)
	for i := range taints {
		taint := undated(taints[i])
		at, known := seen[taint]
		switch added := taints[i].TimeAdded; {
		case known:
		case added != nil && !added.After(now):
			at = added.Time
		default:
			at = now
		}
		s.noteLocked(node, taint, at)
		taints[i].TimeAdded = &metav1.Time{Time: at}
	}
}

// arrived notes that a pod has got its node, unless it was there at the start.
func (s *sightings) arrived(pod types.UID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun {
		s.pods[pod] = now
	}
}

// left forgets a pod that is gone.
func (s *sightings) left(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, pod)
}

// since returns when a pod got its node, as well as it is known.
func (s *sightings) since(pod *podview.Pod, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.pods[pod.UID]
	switch {
	case known:
		return at
	case !pod.CreationTimestamp.After(now):
		return pod.CreationTimestamp.Time
	}
	s.pods[pod.UID] = now
	return now
}
