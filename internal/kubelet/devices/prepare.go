package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

// use is a claim as a pod names it.
type use struct {
	name string
	own  bool // it must have been made for the pod
}

// uses are the claims of a pod.
func uses(pod *corev1.Pod) ([]use, error) {
	var all []use
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name != nil {
			all = append(all, use{*name, own})
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil && s.ResourceClaimName != "" {
		all = append(all, use{s.ResourceClaimName, true})
	}
	return all, nil
}

// Prepare has the claims of a pod prepared. It asks nobody if they are already.
func (d *Devices) Prepare(ctx context.Context, pod *corev1.Pod) error {
	claims, err := d.unprepared(ctx, pod)
	if err != nil || len(claims) == 0 {
		return err
	}
	// In one order for all pods, since some have claims in common.
	slices.SortFunc(claims, func(a, b *resourcev1.ResourceClaim) int { return strings.Compare(string(a.UID), string(b.UID)) })
	claims = slices.CompactFunc(claims, func(a, b *resourcev1.ResourceClaim) bool { return a.UID == b.UID })
	for _, c := range claims {
		if err := d.haveDrivers(c); err != nil {
			return err
		}
	}
	for _, c := range claims {
		defer d.busy.lock(c.UID)()
	}
	for _, c := range claims {
		if err := d.begin(pod, c); err != nil {
			return err
		}
	}
	return d.prepareAll(ctx, claims)
}

// Check returns why the claims of a pod cannot be prepared yet. It asks no driver.
func (d *Devices) Check(ctx context.Context, pod *corev1.Pod) error {
	_, err := d.unprepared(ctx, pod)
	return err
}

// unprepared are the claims of a pod that are not prepared for it yet, and that it may use.
func (d *Devices) unprepared(ctx context.Context, pod *corev1.Pod) ([]*resourcev1.ResourceClaim, error) {
	if len(pod.Spec.ResourceClaims) == 0 && pod.Status.ExtendedResourceClaimStatus == nil {
		return nil, nil
	}
	all, err := uses(pod)
	if err != nil {
		return nil, err
	}
	ready := func(u use) bool {
		c := d.named(pod.Namespace, u.name)
		return c != nil && slices.Contains(c.Pods, pod.UID) && c.prepared()
	}
	var claims []*resourcev1.ResourceClaim
	for _, u := range all {
		if ready(u) {
			continue
		}
		c, err := d.claimFor(ctx, pod, u)
		if err != nil {
			return nil, err
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// claimFor reads a claim, and checks that the pod may use it.
func (d *Devices) claimFor(ctx context.Context, pod *corev1.Pod, u use) (*resourcev1.ResourceClaim, error) {
	c, err := d.Kube.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, u.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("failed to fetch ResourceClaim %s referenced by pod %s: %w", u.name, pod.Name, err)
	}
	if u.own {
		if err := resourceclaim.IsForPod(pod, c, false); err != nil {
			return nil, err
		}
	}
	switch before := d.named(c.Namespace, c.Name); {
	case before != nil && before.UID != c.UID:
		return nil, fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists (previous pod force-deleted?!)", c.Name, before.UID)
	case c.Status.Allocation == nil:
		return nil, fmt.Errorf("ResourceClaim %s is not allocated", c.Name)
	case !resourceclaim.IsReservedForPod(pod, c, false):
		return nil, fmt.Errorf("pod %s(%s) is not allowed to use ResourceClaim %s(%s)", pod.Name, pod.UID, c.Name, c.UID)
	}
	return c, nil
}

// haveDrivers checks that the drivers of a claim are there before anything is noted. Else the pod could not be deleted
// until they are.
func (d *Devices) haveDrivers(c *resourcev1.ResourceClaim) error {
	for i := range c.Status.Allocation.Devices.Results {
		if _, err := d.find(c.Status.Allocation.Devices.Results[i].Driver); err != nil {
			return err
		}
	}
	return nil
}

// begin notes that a pod uses a claim, before any driver hears of it.
func (d *Devices) begin(pod *corev1.Pod, of *resourcev1.ResourceClaim) error {
	c := d.known(of.UID)
	if c == nil {
		c = &claim{UID: of.UID, Namespace: of.Namespace, Name: of.Name, Drivers: map[string]*state{}}
	} else if slices.Contains(c.Pods, pod.UID) {
		return nil
	}
	c = c.clone()
	c.Pods = append(c.Pods, pod.UID)
	for i := range of.Status.Allocation.Devices.Results { // some drivers of a claim may have unprepared it for the last pod
		if name := of.Status.Allocation.Devices.Results[i].Driver; c.Drivers[name] == nil {
			c.Drivers[name] = nil
		}
	}
	return d.note(of.UID, c)
}

// prepareAll asks each driver, once, for all that it has not prepared of some claims. One that fails does not keep the
// others from it.
func (d *Devices) prepareAll(ctx context.Context, claims []*resourcev1.ResourceClaim) error {
	open := map[string][]types.UID{}
	for _, of := range claims {
		for name, s := range d.known(of.UID).Drivers {
			if s == nil {
				open[name] = append(open[name], of.UID)
			}
		}
	}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(open)) {
		failed = errors.Join(failed, d.prepare(ctx, name, open[name]))
	}
	return failed
}

// prepare has one driver prepare some claims.
func (d *Devices) prepare(ctx context.Context, name string, claims []types.UID) error {
	x, err := d.find(name)
	if err != nil {
		return err
	}
	request := &dra.NodePrepareResourcesRequest{}
	for _, uid := range claims {
		request.Claims = append(request.Claims, d.message(uid))
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := x.NodePrepareResources(ctx, request)
	if err != nil {
		return fmt.Errorf("NodePrepareResources of driver %s: %w", name, err)
	}
	var failed error
	for _, uid := range claims {
		c := d.known(uid).clone()
		one, ok := answer.GetClaims()[string(uid)]
		switch {
		case !ok || one == nil:
			failed = errors.Join(failed, fmt.Errorf("NodePrepareResources of driver %s left out ResourceClaim %s", name, c.Name))
		case one.Error != "":
			failed = errors.Join(failed, fmt.Errorf("NodePrepareResources failed for ResourceClaim %s: %s", c.Name, one.Error))
		default:
			c.Drivers[name] = stateOf(one.Devices)
			failed = errors.Join(failed, d.note(uid, c))
		}
	}
	return failed
}

func (d *Devices) message(uid types.UID) *dra.Claim {
	c := d.known(uid)
	return &dra.Claim{Namespace: c.Namespace, Uid: string(c.UID), Name: c.Name}
}

func stateOf(devices []*dra.Device) *state {
	s := &state{}
	for _, x := range devices {
		s.Devices = append(s.Devices, device{Pool: x.GetPoolName(), Name: x.GetDeviceName(), Requests: x.GetRequestNames(), CDI: x.GetCdiDeviceIds(), Share: x.ShareId})
	}
	return s
}
