package worker

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/kubelet/container"
)

// Found tells of a pod that the runtime has. If nobody wants it, it is ended and removed.
func (c *Crew) Found(found *container.Pod) {
	key := Key{Namespace: found.Namespace, Name: found.Name}
	if pod, ok := c.Wanted(key); ok && pod.UID == found.UID {
		c.loop.Add(key)
		return
	}
	// No pod can have such a name, so nobody wants it, and one that has the true name is not disturbed.
	key.Name += "/" + string(found.UID)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.uids[string(found.UID)]; ok {
		return
	}
	c.lives[key] = &life{uid: found.UID}
	c.uids[string(found.UID)] = key
	c.loop.Add(key)
}

// Has reports whether a pod is cared for.
func (c *Crew) Has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.uids[string(uid)]
	return ok
}

// Admitted reports whether a pod has been let in and has not ended.
func (c *Crew) Admitted(key Key) bool {
	c.mu.Lock()
	l := c.lives[key]
	c.mu.Unlock()
	return l != nil && l.inside.Load()
}

// Status is what was told of a pod last, if it is remembered.
func (c *Crew) Status(key Key) (*corev1.PodStatus, bool) {
	c.mu.Lock()
	l := c.lives[key]
	c.mu.Unlock()
	if l == nil {
		return nil, false
	}
	s := l.last.Load()
	return s, s != nil
}
