package endpoints

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/service"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const (
	name           = "endpoints-controller"
	managedByLabel = "endpoints.kubernetes.io/managed-by"
	managedBy      = "endpoint-controller"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"endpoint"}, Source: "endpoint-controller", New: New}

type controller struct {
	kube      kubernetes.Interface
	recorder  loop.Recorder
	services  *informer.Shared[*corev1.Service]
	endpoints *informer.Shared[*corev1.Endpoints]
	pods      *informer.Shared[*podview.Pod]
	pace      service.Pace
	triggers  service.Triggers
	gone      sync.Map // by key: Services that were seen to be deleted, and have Endpoints to delete
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	e := &controller{
		kube:      c.Kube,
		recorder:  c.Recorder,
		services:  loop.Informer(c, informer.For(c.Kube.CoreV1().Services(""))),
		endpoints: loop.Informer(c, informer.For(c.Kube.CoreV1().Endpoints(""))),
		pods:      podview.Informer(c),
	}
	return &loop.Loop{Name: name, Clients: c, Workers: 5, Sync: e.sync, Watches: []loop.Watch{
		loop.Changes(e.services, e.serviceChanged),
		loop.Self(e.endpoints),
		service.Watch(e.services, e.pods, &e.pace),
	}}, nil
}

// serviceChanged remembers a deletion: then Endpoints are deleted that a user has made, too. Endpoints of a user's own
// that never had a Service stay.
func (e *controller) serviceChanged(before, after *corev1.Service) []loop.Key {
	if after == nil {
		e.gone.Store(informer.KeyOf(before), true)
		return []loop.Key{informer.KeyOf(before)}
	}
	return []loop.Key{informer.KeyOf(after)}
}

func (e *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	old, exists := e.endpoints.Lookup(key)
	s, ok := e.services.Lookup(key)
	if !ok {
		e.pace.Forget(key)
		e.triggers.Forget(key)
		_, gone := e.gone.Load(key)
		if exists && (gone || old.Labels[managedByLabel] == managedBy) {
			if err := e.delete(ctx, key, old); err != nil {
				return loop.Result{}, err
			}
		}
		e.gone.Delete(key)
		return loop.Result{}, nil
	}
	e.gone.Delete(key)
	if !service.Selects(s) || s.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	pods := service.Pods(e.pods, s)
	e.pace.Set(key, len(pods))
	trigger := e.triggers.Oldest(key, s, pods)
	wanted := wantedFor(s, old, subsets(s, pods))
	if exists && alike(old, wanted) {
		return loop.Result{}, nil
	}
	service.Stamp(wanted, trigger)
	if err := e.write(ctx, key, wanted, exists); err != nil {
		if !service.Passes(err) {
			e.recorder.Eventf(wanted, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %s/%s: %v", s.Namespace, s.Name, errors.Unwrap(err))
		}
		return loop.Result{}, err
	}
	return loop.Result{}, nil
}

// wantedFor returns the object as it should be. Annotations of others stay.
func wantedFor(s *corev1.Service, old *corev1.Endpoints, all []corev1.EndpointSubset) *corev1.Endpoints {
	wanted := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace}}
	if old != nil {
		wanted.ObjectMeta = *old.ObjectMeta.DeepCopy()
	}
	wanted.Labels = maps.Clone(s.Labels)
	if wanted.Labels == nil {
		wanted.Labels = map[string]string{}
	}
	delete(wanted.Labels, service.HeadlessLabel)
	if service.Headless(s) {
		wanted.Labels[service.HeadlessLabel] = ""
	}
	wanted.Labels[managedByLabel] = managedBy
	if truncate(all) {
		metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, corev1.EndpointsOverCapacity, "truncated")
	} else {
		delete(wanted.Annotations, corev1.EndpointsOverCapacity)
	}
	wanted.Subsets = all
	return wanted
}

func alike(a, b *corev1.Endpoints) bool {
	return maps.Equal(a.Labels, b.Labels) && apiequality.Semantic.DeepEqual(a.Subsets, b.Subsets) &&
		a.Annotations[corev1.EndpointsOverCapacity] == b.Annotations[corev1.EndpointsOverCapacity]
}

func (e *controller) write(ctx context.Context, key loop.Key, wanted *corev1.Endpoints, exists bool) error {
	endpoints := e.kube.CoreV1().Endpoints(wanted.Namespace)
	var written *corev1.Endpoints
	var err error
	if exists {
		written, err = endpoints.Update(ctx, wanted, metav1.UpdateOptions{})
	} else {
		written, err = endpoints.Create(ctx, wanted, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write endpoints %s: %w", key, err)
	}
	loop.Wrote(ctx, e.endpoints, written.ResourceVersion)
	return nil
}

// delete deletes the Endpoints of a deleted Service.
func (e *controller) delete(ctx context.Context, key loop.Key, old *corev1.Endpoints) error {
	err := e.kube.CoreV1().Endpoints(old.Namespace).Delete(ctx, old.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &old.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete endpoints %s: %w", key, err)
	}
	loop.Removed(ctx, e.endpoints, old)
	return nil
}
