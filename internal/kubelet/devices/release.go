package devices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

// Release ends a pod's use of its claims, and has those unprepared that no other pod of the node uses. It fails as long
// as one is not.
func (d *Devices) Release(ctx context.Context, pod string) error {
	claims := d.usedBy(types.UID(pod))
	for _, uid := range claims {
		defer d.busy.lock(uid)()
	}
	open := map[string][]types.UID{}
	for _, uid := range claims {
		c := d.known(uid)
		switch {
		case c == nil || !slices.Contains(c.Pods, types.UID(pod)): // another call was faster
		case len(c.Pods) > 1:
			c = c.clone()
			c.Pods = slices.DeleteFunc(c.Pods, func(p types.UID) bool { return p == types.UID(pod) })
			if err := d.note(uid, c); err != nil {
				return err
			}
		case len(c.Drivers) == 0:
			if err := d.note(uid, nil); err != nil {
				return err
			}
		default:
			for name := range c.Drivers {
				open[name] = append(open[name], uid)
			}
		}
	}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(open)) {
		failed = errors.Join(failed, d.unprepare(ctx, name, open[name]))
	}
	return failed
}

// unprepare has one driver unprepare some claims. A claim is forgotten with the last of its drivers.
func (d *Devices) unprepare(ctx context.Context, name string, claims []types.UID) error {
	x, err := d.find(name)
	if err != nil {
		return err
	}
	request := &dra.NodeUnprepareResourcesRequest{}
	for _, uid := range claims {
		request.Claims = append(request.Claims, d.message(uid))
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	answer, err := x.NodeUnprepareResources(ctx, request)
	if err != nil {
		return fmt.Errorf("NodeUnprepareResources of driver %s: %w", name, err)
	}
	var failed error
	for _, uid := range claims {
		c := d.known(uid).clone()
		one, ok := answer.GetClaims()[string(uid)]
		switch {
		case !ok:
			failed = errors.Join(failed, fmt.Errorf("NodeUnprepareResources of driver %s left out ResourceClaim %s", name, c.Name))
			continue
		case one.GetError() != "":
			failed = errors.Join(failed, fmt.Errorf("NodeUnprepareResources failed for ResourceClaim %s: %s", c.Name, one.GetError()))
			continue
		}
		if delete(c.Drivers, name); len(c.Drivers) == 0 {
			c = nil
		}
		failed = errors.Join(failed, d.note(uid, c))
	}
	return failed
}

// Sweep releases the claims of pods that are not alive.
func (d *Devices) Sweep(ctx context.Context, alive func(pod string) bool) error {
	d.noted.Lock()
	gone := map[types.UID]bool{}
	for _, c := range d.claims {
		for _, pod := range c.Pods {
			if !alive(string(pod)) {
				gone[pod] = true
			}
		}
	}
	d.noted.Unlock()
	var failed error
	for pod := range gone {
		failed = errors.Join(failed, d.Release(ctx, string(pod)))
	}
	return failed
}
