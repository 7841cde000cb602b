package scheduler

import (
	"context"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/scheduler/internal/cluster"
)

// Devices are the informers for devices. A nil one counts as empty.
type Devices struct {
	Claims  *informer.Shared[*resourcev1.ResourceClaim]
	Slices  *informer.Shared[*resourcev1.ResourceSlice]
	Classes *informer.Shared[*resourcev1.DeviceClass]
}

// devicesOf returns no informers if the API server is known not to have these kinds, like older versions.
func devicesOf(c *loop.Clients) Devices {
	if c.Discovery != nil {
		if _, err := c.Discovery.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String()); apierrors.IsNotFound(err) {
			return Devices{}
		}
	}
	return Devices{
		Claims:  loop.Informer(c, informer.For(c.Kube.ResourceV1().ResourceClaims(""))),
		Slices:  loop.Informer(c, informer.For(c.Kube.ResourceV1().ResourceSlices())),
		Classes: loop.Informer(c, informer.For(c.Kube.ResourceV1().DeviceClasses())),
	}
}

// followDevices adds handlers to the informers for devices.
func (t *term) followDevices() registrations {
	d, to := t.options.Watched.Devices, &t.state.Devices
	var a registrations
	if d.Claims != nil {
		a = append(a, follow(t, d.Claims, t.resourceClaimChanged))
	}
	a = append(a, followStored(t, d.Slices, cluster.DeviceChanged, func(key informer.Key, slice *resourcev1.ResourceSlice) {
		to.SetSlice(key.Name, slice)
	})...)
	return append(a, followStored(t, d.Classes, cluster.DeviceChanged, func(key informer.Key, class *resourcev1.DeviceClass) {
		to.SetClass(key.Name, class)
	})...)
}

func (t *term) resourceClaimChanged(key informer.Key) string {
	object, _ := t.options.Watched.Devices.Claims.Lookup(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.state.Devices.Claim(cluster.Key(key))
	t.state.Devices.SetClaim(cluster.Key(key), object)
	freed := known && was.Status.Allocation != nil && (object == nil || object.Status.Allocation == nil)
	var some func(*cluster.Pod) bool // any pod may use devices that have become free
	if !freed {
		some = func(pod *cluster.Pod) bool {
			return pod.Key.Namespace == key.Namespace &&
				slices.ContainsFunc(pod.Claims, func(c cluster.PodClaim) bool { return c.Name == key.Name })
		}
	}
	t.wakeSomeFor(cluster.DeviceChanged, nil, some)
	t.storageChanged()
	return "ResourceClaimUpdate"
}

// claimTries is how often a write of a claim is repeated after conflicts.
const claimTries = 10

// ChangeResourceClaim writes the finalizers first: a claim must not be deleted while its devices are in use.
func (w writer) ChangeResourceClaim(ctx context.Context, was *resourcev1.ResourceClaim, change func(*resourcev1.ResourceClaim) error) (written *resourcev1.ResourceClaim, err error) {
	now := was.DeepCopy()
	for range claimTries {
		if err != nil {
			if now, err = w.kube.ResourceV1().ResourceClaims(was.Namespace).Get(ctx, was.Name, metav1.GetOptions{}); err != nil {
				return nil, err
			}
		}
		written, err = w.changeOnce(ctx, now, change)
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return written, err
}

func (w writer) changeOnce(ctx context.Context, now *resourcev1.ResourceClaim, change func(*resourcev1.ResourceClaim) error) (*resourcev1.ResourceClaim, error) {
	claims := w.kube.ResourceV1().ResourceClaims(now.Namespace)
	finalizers := len(now.Finalizers)
	if err := change(now); err != nil {
		return nil, err
	}
	if len(now.Finalizers) != finalizers {
		written, err := claims.Update(ctx, now, metav1.UpdateOptions{})
		if err != nil {
			return nil, fmt.Errorf("add finalizer to claim %s/%s: %w", now.Namespace, now.Name, err)
		}
		written.Status = now.Status
		now = written
	}
	written, err := claims.UpdateStatus(ctx, now, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add allocation and reservation to claim %s/%s: %w", now.Namespace, now.Name, err)
	}
	return written, nil
}
