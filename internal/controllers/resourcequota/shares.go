package resourcequota

import (
	"context"
	"errors"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/quota"
)

// share is what one object uses, and the attributes that scopes select by: nil if no scope applies. Its fields are
// exported because informers compare them by reflection.
type share struct {
	Use    corev1.ResourceList
	Scoped any
	// Devices are those of a resource claim, by class, and Special says what it has to do with a pod.
	Devices map[string]int64
	Special *quota.Special
	// Pod is the part of a pod that tells whether it has paid for a resource claim.
	Pod *corev1.Pod
	// Class is a device class, and Resource the extended resource that it names.
	Class, Resource string
}

// counter watches the objects of one kind, until the kind is gone.
type counter struct {
	shares *informer.Shared[share]
	stop   context.CancelFunc
}

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
	c := &counter{}
	c.shares = r.follow(kind, found.Resource, func(err error) { r.failed(kind, c, err) })
	c.shares.Handle(informer.Handler[share]{Name: name, Because: func(by cause.Change) {
		if kind == deviceClasses {
			r.wakeThose(quota.ResourceClaims, r.quotas.List(), by)
			return
		}
		r.wake(kind, by.Namespace, by)
	}})
	var life context.Context
	life, c.stop = context.WithCancel(r.life)
	r.running.Go(func() {
		defer c.stop()
		if err := c.shares.Run(life); err != nil {
			r.log.WarnContext(life, "counting stopped", "kind", kind.String(), "err", err)
		}
	})
	r.counters[kind] = c
	return c, nil
}

// failed hears of an error of a counter. If the kind is gone, which is normal, the counter ends: another one begins if
// the kind comes back.
func (r *controller) failed(kind schema.GroupResource, c *counter, err error) {
	level := slog.LevelWarn
	if apierrors.IsNotFound(err) || errors.Is(err, informer.ErrEmptyWatch) {
		level = slog.LevelDebug
	}
	r.log.Log(context.Background(), level, "a kind of a quota cannot be counted", "kind", kind.String(), "err", err)
	if !apierrors.IsNotFound(err) {
		return
	}
	c.stop()
	r.mu.Lock()
	if r.counters[kind] == c {
		delete(r.counters, kind)
	}
	r.catalogue = nil // it may still show the kind
	r.mu.Unlock()
	r.wakeThose(kind, r.quotas.List(), cause.Change{})
}

// follow makes the informer of a kind. Its errors go to failed.
func (r *controller) follow(kind schema.GroupResource, resource schema.GroupVersionResource, failed func(error)) *informer.Shared[share] {
	options := informer.Options[share]{
		Name: "quota/" + kind.Resource, OnError: failed, DropManagedFields: true,
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
	switch kind {
	case quota.ResourceClaims:
		return informer.Project(informer.For(r.kube.ResourceV1().ResourceClaims("")), ofDeviceClaim, options)
	case deviceClasses:
		return informer.Project(informer.For(r.kube.ResourceV1().DeviceClasses()), ofDeviceClass, options)
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
	s := share{Use: quota.Use(pods, p), Scoped: scoped}
	if len(demand.Requests(p).Extended) > 0 {
		s.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: p.UID}, Status: corev1.PodStatus{ExtendedResourceClaimStatus: p.Status.ExtendedResourceClaimStatus}}
	}
	return s
}

func ofDeviceClaim(c *resourcev1.ResourceClaim) share {
	return share{Devices: quota.Devices(c), Special: quota.SpecialOf(c)}
}

func ofDeviceClass(c *resourcev1.DeviceClass) share {
	s := share{Class: c.Name}
	if name := c.Spec.ExtendedResourceName; name != nil {
		s.Resource = *name
	}
	return s
}

func ofClaim(c *corev1.PersistentVolumeClaim) share {
	return share{Use: quota.Use(claims, c), Scoped: &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: c.Spec.VolumeAttributesClassName},
	}}
}
