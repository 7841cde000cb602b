package source

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/informer"
)

// Key names a pod.
type Key = informer.Key

// Name says where a pod comes from.
type Name string

// The sources of a kubelet.
const (
	File Name = "file"
	HTTP Name = "http"
	API  Name = "api"
)

// Operation is the kind of an Update.
type Operation string

// The operations. Deleted means that a pod must end gracefully, Removed that no source wants it, Reconciled that only
// its status is not as it should be.
const (
	Added      Operation = "ADD"
	Updated    Operation = "UPDATE"
	Deleted    Operation = "DELETE"
	Removed    Operation = "REMOVE"
	Reconciled Operation = "RECONCILE"
)

// Update is one change of a node's pods.
type Update struct {
	Operation Operation
	Source    Name
	Pod       *corev1.Pod
}

// Config merges the pods of all sources.
type Config struct {
	tell func(Update)

	order sync.Mutex // held from a change until it was reported; locked before mu

	mu   sync.RWMutex // guards what follows
	pods map[Key]wanted
	seen map[Name]bool
}

type wanted struct {
	pod    *corev1.Pod
	source Name
}

// NewConfig returns a Config of sources, none of which has reported yet. tell is called for each change, one at a time
// and in order.
func NewConfig(tell func(Update), sources ...Name) *Config {
	c := &Config{tell: tell, pods: map[Key]wanted{}, seen: map[Name]bool{}}
	for _, s := range sources {
		c.seen[s] = false
	}
	return c
}

// Set sets all pods of a source. The Config owns them from then on.
func (c *Config) Set(source Name, pods []*corev1.Pod) {
	c.order.Lock()
	defer c.order.Unlock()
	for _, u := range c.merge(source, pods) {
		c.tell(u)
	}
}

func (c *Config) merge(source Name, pods []*corev1.Pod) []Update {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[source] = true
	var updates []Update
	present := make(map[Key]bool, len(pods))
	for _, pod := range pods {
		key := informer.KeyOf(pod)
		had, ok := c.pods[key]
		if ok && had.source != source || present[key] {
			continue
		}
		present[key] = true
		if ok && had.pod.UID != pod.UID {
			updates = append(updates, Update{Removed, source, had.pod})
			ok = false
		}
		c.pods[key] = wanted{pod, source}
		if operation := compare(had.pod, pod, ok); operation != "" {
			updates = append(updates, Update{operation, source, pod})
		}
	}
	for key, had := range c.pods {
		if had.source == source && !present[key] {
			delete(c.pods, key)
			updates = append(updates, Update{Removed, source, had.pod})
		}
	}
	return updates
}

// compare returns the operation for a pod.
func compare(before, now *corev1.Pod, known bool) Operation {
	switch {
	case !known:
		return Added
	case before == now || before.ResourceVersion != "" && before.ResourceVersion == now.ResourceVersion:
		return ""
	case now.DeletionTimestamp != nil && (before.DeletionTimestamp == nil || shorter(before, now)):
		return Deleted
	case !equality.Semantic.DeepEqual(before.Spec, now.Spec), !equality.Semantic.DeepEqual(before.Labels, now.Labels),
		!equality.Semantic.DeepEqual(before.Annotations, now.Annotations):
		return Updated
	case !equality.Semantic.DeepEqual(before.Status, now.Status):
		return Reconciled
	}
	return ""
}

func shorter(before, now *corev1.Pod) bool {
	return before.DeletionGracePeriodSeconds != nil && now.DeletionGracePeriodSeconds != nil &&
		*now.DeletionGracePeriodSeconds < *before.DeletionGracePeriodSeconds
}

// Pod returns the pod with this name, of whichever source.
func (c *Config) Pod(key Key) (*corev1.Pod, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	w, ok := c.pods[key]
	return w.pod, ok
}

// Pods returns the pods of all sources.
func (c *Config) Pods() []*corev1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*corev1.Pod, 0, len(c.pods))
	for _, w := range c.pods {
		all = append(all, w.pod)
	}
	return all
}

// Ready reports whether every source has reported, so that unwanted pods may be stopped.
func (c *Config) Ready() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, seen := range c.seen {
		if !seen {
			return false
		}
	}
	return true
}

// SourceOf returns where a wanted pod comes from. What a pod says of itself does not count: anybody who may create a
// pod could write it. A pod that no source wants, or no longer wants under this UID, has no source.
func (c *Config) SourceOf(pod *corev1.Pod) (Name, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	w, ok := c.pods[informer.KeyOf(pod)]
	if !ok || w.pod.UID != pod.UID {
		return "", false
	}
	return w.source, true
}

// Static reports whether a wanted pod comes from another source than the API server, so that only this source can
// delete it.
func (c *Config) Static(pod *corev1.Pod) bool {
	s, ok := c.SourceOf(pod)
	return ok && s != API
}

// Mirror reports whether a pod of the API server claims to be the mirror pod of a static pod. Such a pod is never run:
// it is shown for a static pod that this node has, and removed if there is none.
func Mirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
