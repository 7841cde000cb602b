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

// Operation says what an Update means.
type Operation string

// The operations. Deleted means that a pod is to end in its time, Removed that it is wanted no more, Reconciled that only
// its status is not what it should be.
const (
	Added      Operation = "ADD"
	Updated    Operation = "UPDATE"
	Deleted    Operation = "DELETE"
	Removed    Operation = "REMOVE"
	Reconciled Operation = "RECONCILE"
)

// Update is one change to the pods of a node.
type Update struct {
	Operation Operation
	Source    Name
	Pod       *corev1.Pod
}

// Config is what all sources together want.
type Config struct {
	tell func(Update)

	order sync.Mutex // held from a change to the end of its telling; before mu

	mu   sync.RWMutex // guards what follows
	pods map[Key]wanted
	seen map[Name]bool
}

type wanted struct {
	pod    *corev1.Pod
	source Name
}

// NewConfig makes a Config of sources, none of which has been seen. tell hears of changes, one at a time and in order.
func NewConfig(tell func(Update), sources ...Name) *Config {
	c := &Config{tell: tell, pods: map[Key]wanted{}, seen: map[Name]bool{}}
	for _, s := range sources {
		c.seen[s] = false
	}
	return c
}

// Set says what a source wants: all of it. The pods are the Config's from then on.
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

// compare says what has become of a pod.
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

// Pod is the pod that is wanted under a name.
func (c *Config) Pod(key Key) (*corev1.Pod, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	w, ok := c.pods[key]
	return w.pod, ok
}

// Pods are all that are wanted.
func (c *Config) Pods() []*corev1.Pod {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*corev1.Pod, 0, len(c.pods))
	for _, w := range c.pods {
		all = append(all, w.pod)
	}
	return all
}

// Ready reports whether every source has been seen, so that what nobody wants may be ended.
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

// Static reports whether a pod comes from a source other than the API server.
func Static(pod *corev1.Pod) bool {
	s, ok := pod.Annotations[sourceNote]
	return ok && s != string(API)
}

// Mirror reports whether a pod only shows a static one in the API.
func Mirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}
