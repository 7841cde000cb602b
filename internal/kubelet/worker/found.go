package worker

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/container"
)

// Found is called for a pod that the runtime has. A pod that no source wants is stopped and removed.
func (c *Crew) Found(found *container.Pod) {
	key := Key{Namespace: found.Namespace, Name: found.Name}
	if pod, ok := c.Wanted(key); ok && pod.UID == found.UID {
		c.loop.Add(key)
		return
	}
	// A slash cannot be in a pod's name, so no source wants this key, and the pod that has the real name is not
	// disturbed.
	key.Name += "/" + string(found.UID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.uids[string(found.UID)]; ok {
		return
	}
	c.records[key] = &record{uid: found.UID}
	c.uids[string(found.UID)] = key
	c.loop.Add(key)
}

// Has reports whether the pod is known here.
func (c *Crew) Has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.uids[string(uid)]
	return ok
}

// Admitted reports whether a pod was admitted and has not ended. Of a pod that was not synced yet its status tells: a
// kubelet that restarts must not give away what running pods have.
func (c *Crew) Admitted(pod *corev1.Pod) bool {
	switch c.standing(pod) {
	case undecided:
		return admittedBefore(&pod.Status) && !demand.Finished(pod.Status.Phase)
	case inactive:
		return false
	}
	return true
}

// Evictable reports whether a pod was admitted, has not ended, and is not being evicted.
func (c *Crew) Evictable(pod *corev1.Pod) bool { return c.standing(pod) == active }

func (c *Crew) standing(pod *corev1.Pod) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.records[Key{Namespace: pod.Namespace, Name: pod.Name}]; r != nil {
		return r.standing.Load()
	}
	return undecided
}

// Status returns the status that was reported last, if it is remembered.
func (c *Crew) Status(key Key) (*corev1.PodStatus, bool) {
	c.mu.Lock()
	r := c.records[key]
	c.mu.Unlock()
	if r == nil {
		return nil, false
	}
	s := r.last.Load()
	return s, s != nil
}
