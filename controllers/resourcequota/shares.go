package resourcequota

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/quota"
)

// share is what one object uses, and the attributes that scopes select by: nil if no scope applies. Its fields are exported
// because informers compare them by reflection.
type share struct {
	Use    corev1.ResourceList
	Scoped any
}

// counter watches the objects of one kind.
type counter struct{ shares *informer.Shared[share] }

// counter returns the counter of a kind, and makes it if needed. It returns nil if there is no such kind.
func (r *controller) counter(kind schema.GroupResource) (*counter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.counters[kind]; c != nil {
		return c, nil
	}
	found, err := r.findLocked(kind)
	if found == nil || err != nil {
		return nil, err
	}
	c := &counter{r.follow(kind, found.Resource)}
	c.shares.Handle(informer.Handler[share]{Name: name, Changed: func(key informer.Key) { r.wake(kind, key.Namespace) }})
	life := r.life
	r.running.Go(func() {
		if err := c.shares.Run(life); err != nil {
			r.log.WarnContext(life, "counting stopped", "kind", kind.String(), "err", err)
		}
	})
	r.counters[kind] = c
	return c, nil
}

func (r *controller) follow(kind schema.GroupResource, resource schema.GroupVersionResource) *informer.Shared[share] {
	options := informer.Options[share]{
		Name: "quota/" + kind.Resource, Logger: r.log, DropManagedFields: true,
		DisableStreaming: watchlist.DoesClientNotSupportWatchListSemantics(r.kube),
	}
	switch kind {
	case pods:
		return informer.Project(informer.For(r.kube.CoreV1().Pods("")), ofPod, options)
	case services:
		return informer.Project(informer.For(r.kube.CoreV1().Services("")), func(s *corev1.Service) share {
			return share{Use: quota.Use(services, s)}
		}, options)
	case claims:
		return informer.Project(informer.For(r.kube.CoreV1().PersistentVolumeClaims("")), ofClaim, options)
	}
	use := quota.Use(kind, nil)
	return informer.Project(informer.Metadata(r.metadata, resource, ""), func(*metav1.PartialObjectMetadata) share {
		return share{Use: use}
	}, options)
}

// ofPod keeps the parts of a pod that scopes need.
func ofPod(p *corev1.Pod) share {
	scoped := &corev1.Pod{Spec: corev1.PodSpec{
		ActiveDeadlineSeconds: p.Spec.ActiveDeadlineSeconds, PriorityClassName: p.Spec.PriorityClassName,
		Affinity: p.Spec.Affinity, Resources: p.Spec.Resources,
	}}
	for _, c := range p.Spec.Containers {
		scoped.Spec.Containers = append(scoped.Spec.Containers, corev1.Container{Resources: c.Resources})
	}
	for _, c := range p.Spec.InitContainers {
		scoped.Spec.InitContainers = append(scoped.Spec.InitContainers, corev1.Container{Resources: c.Resources})
	}
	return share{Use: quota.Use(pods, p), Scoped: scoped}
}

func ofClaim(c *corev1.PersistentVolumeClaim) share {
	return share{Use: quota.Use(claims, c), Scoped: &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: c.Spec.VolumeAttributesClassName},
	}}
}
