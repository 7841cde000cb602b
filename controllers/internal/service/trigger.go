package service

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// Triggers remembers which changes of services and their pods were seen, so that
// what is written can say since when it was due: programs measure by that how
// long it takes until the network follows.
type Triggers struct {
	mu   sync.Mutex
	seen map[loop.Key]map[types.UID]time.Time
}

// Oldest is the time of the oldest change that was not seen yet: that the service was made, or that a pod became ready or
// not. It is zero if there is none.
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

// Stamp writes the time of the change that made an object be written, or takes away that of an earlier one.
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
