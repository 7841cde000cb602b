package pressure

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Hold keeps pressure conditions for a while after the shortage has ended, so that pods do not return too soon. Its
// zero value has no conditions.
type Hold struct {
	mu    sync.Mutex // guards until
	until map[corev1.NodeConditionType]time.Time
}

// Note sets the current shortages, and reports whether a condition has begun or ended.
func (h *Hold) Note(short []Shortage, now time.Time, after time.Duration) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[corev1.NodeConditionType]time.Time{}
	}
	for _, s := range short {
		if _, held := h.until[s.Signal.Condition()]; !held {
			changed = true
		}
		h.until[s.Signal.Condition()] = now.Add(after)
	}
	for kind, end := range h.until {
		if !now.Before(end) {
			delete(h.until, kind)
			changed = true
		}
	}
	return changed
}

// Conditions returns the conditions that are true.
func (h *Hold) Conditions() map[corev1.NodeConditionType]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[corev1.NodeConditionType]bool, len(h.until))
	for kind := range h.until {
		all[kind] = true
	}
	return all
}
