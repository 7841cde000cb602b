package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/devices"
	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/loop"
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
func (k *knowledge) followDevices() registrations {
	d, to := k.options.Watched.Devices, &k.state.Devices
	var a registrations
	if d.Claims != nil {
		a = append(a, follow(k, d.Claims, k.resourceClaimChanged))
	}
	a = append(a, followStored(k, d.Slices, cluster.DeviceChanged, func(key informer.Key, slice *resourcev1.ResourceSlice) {
		to.SetSlice(key.Name, slice)
		if k.scoresDevices {
			k.state.TouchAll()
		}
	})...)
	if d.Classes != nil {
		a = append(a, follow(k, d.Classes, k.deviceClassChanged))
	}
	return a
}

func (k *knowledge) deviceClassChanged(key informer.Key) string {
	object, _ := k.options.Watched.Devices.Classes.Lookup(key)
	k.lock()
	defer k.mu.Unlock()
	resources := k.state.Devices.SetClass(key.Name, object)
	if len(resources) > 0 || k.scoresDevices {
		k.state.TouchAll() // which nodes suit those who ask for them depends on it
	}
	if len(resources) > 0 {
		k.wakeSomeFor(cluster.ExtendedChanged, nil, func(pod *cluster.Pod) bool {
			return slices.ContainsFunc(pod.Extended, func(r cluster.ExtendedRequest) bool { return slices.Contains(resources, r.Resource) })
		})
	}
	k.wakeFor(cluster.DeviceChanged, nil)
	k.storageChanged()
	return "DeviceClassUpdate"
}

func (k *knowledge) resourceClaimChanged(key informer.Key) string {
	object, _ := k.options.Watched.Devices.Claims.Lookup(key)
	k.lock()
	defer k.mu.Unlock()
	was, known := k.state.Devices.Claim(cluster.Key(key))
	k.state.Devices.SetClaim(cluster.Key(key), object)
	if k.scoresDevices {
		k.touchUsers(was)
		k.touchUsers(object)
	}
	freed := known && was.Status.Allocation != nil && (object == nil || object.Status.Allocation == nil)
	var some func(*cluster.Pod) bool // any pod may use devices that have become free
	if !freed {
		owner := cmp.Or(devices.SpecialFor(was), devices.SpecialFor(object))
		some = func(pod *cluster.Pod) bool {
			return pod.Key.Namespace == key.Namespace && (owner != "" && pod.UID == owner ||
				slices.ContainsFunc(pod.Claims, func(c cluster.PodClaim) bool { return c.Name == key.Name }))
		}
	}
	k.wakeSomeFor(cluster.DeviceChanged, nil, some)
	k.storageChanged()
	return "ResourceClaimUpdate"
}

// touchUsers lets the nodes count as changed that can use the devices of a claim, which may be nil.
func (k *knowledge) touchUsers(c *resourcev1.ResourceClaim) {
	if c == nil || c.Status.Allocation == nil {
		return
	}
	if selector := c.Status.Allocation.NodeSelector; selector != nil {
		match := demand.NodeSelectorMatch(selector)
		if names, named := match.Names(); named {
			for _, name := range names {
				k.state.TouchNode(name)
			}
			return
		}
	}
	k.state.TouchAll()
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

func (w writer) CreateResourceClaim(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	created, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create claim for extended resources %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return created, nil
}

// DeleteResourceClaim removes the finalizer that protects claims in use, and then the claim.
func (w writer) DeleteResourceClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	claims := w.kube.ResourceV1().ResourceClaims(claim.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || now.UID != claim.UID || !slices.Contains(now.Finalizers, resourcev1.Finalizer) {
			return err
		}
		now.Finalizers = slices.DeleteFunc(now.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
		_, err = claims.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = claims.Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))})
		if apierrors.IsConflict(err) {
			return nil // another claim has its name
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete claim for extended resources %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// SetExtendedClaim names the pod's UID, so that it never writes to another pod with the same name.
func (w writer) SetExtendedClaim(ctx context.Context, pod *plugin.Pod, status *corev1.PodExtendedResourceClaimStatus) error {
	return server{client: w.kube.CoreV1()}.patchStatus(ctx, pod, "", map[string]any{"extendedResourceClaimStatus": status})
}
