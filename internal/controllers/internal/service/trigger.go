package service

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// Triggers remembers which changes of Services and pods were seen, so that an endpoints object can carry the time of
// the change that triggered it. Clients measure the programming latency with it.
type Triggers struct {
	mu   sync.Mutex
	seen map[loop.Key]map[types.UID]time.Time
}

// Oldest returns the time of the oldest new change: the creation of the Service, or a change of a pod's readiness. It
// is zero if there is none.
func (t *Triggers) Oldest(key loop.Key, s *corev1.Service, pods []*podview.Pod) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, now := t.seen[key], make(map[types.UID]time.Time, len(pods)+1)
	var oldest time.Time
	look := func(uid types.UID, changed metav1.Time) {
		now[uid] = changed.Time
		if changed.After(before[uid]) && (oldest.IsZero() || changed.Time.Before(oldest)) {
			oldest = changed.Time
		}
	}
	look(s.UID, s.CreationTimestamp)
	for _, pod := range pods {
		look(pod.UID, pod.ReadyChanged)
	}
	if t.seen == nil {
		t.seen = map[loop.Key]map[types.UID]time.Time{}
	}
	t.seen[key] = now
	return oldest
}

// Forget drops a service.
func (t *Triggers) Forget(key loop.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.seen, key)
}

// Stamp sets the annotation with the trigger time, or removes it.
func Stamp(object metav1.Object, trigger time.Time) {
	annotations := object.GetAnnotations()
	if trigger.IsZero() {
		delete(annotations, corev1.EndpointsLastChangeTriggerTime)
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.EndpointsLastChangeTriggerTime] = trigger.UTC().Format(time.RFC3339Nano)
	object.SetAnnotations(annotations)
}
