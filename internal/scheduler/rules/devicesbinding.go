package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// kube-scheduler's reasons why devices do not become ready.
var (
	errBindingTimeout = errors.New("device binding timeout")
	errBindingFailed  = errors.New("device binding failed")
)

// conditioned reports whether a claim has devices that must be ready before a pod is bound.
func conditioned(c *resourcev1.ResourceClaim) bool {
	return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results,
		func(r resourcev1.DeviceRequestAllocationResult) bool { return len(r.BindingConditions) > 0 })
}

// ready reports whether the devices of a claim are ready for its pods; an error means that they will not be.
func ready(c *resourcev1.ResourceClaim) (bool, error) {
	if c.Status.Allocation == nil {
		return false, nil
	}
	for i := range c.Status.Allocation.Devices.Results {
		result := &c.Status.Allocation.Devices.Results[i]
		if len(result.BindingConditions) == 0 {
			continue
		}
		at := slices.IndexFunc(c.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
			return d.Driver == result.Driver && d.Pool == result.Pool && d.Device == result.Device
		})
		if at < 0 {
			return false, nil
		}
		conditions := c.Status.Devices[at].Conditions
		for _, kind := range result.BindingFailureConditions {
			if meta.IsStatusConditionTrue(conditions, kind) {
				failed := meta.FindStatusCondition(conditions, kind)
				return false, fmt.Errorf("%w: claim=%s, reason=%s, message=%q", errBindingFailed, c.Name, failed.Reason, failed.Message)
			}
		}
		if slices.ContainsFunc(result.BindingConditions, func(kind string) bool { return !meta.IsStatusConditionTrue(conditions, kind) }) {
			return false, nil
		}
	}
	return true, nil
}

// late reports whether the devices of a claim have exceeded their time to become ready.
func (d *Devices) late(c *resourcev1.ResourceClaim, now time.Time) bool {
	a := c.Status.Allocation
	return a != nil && a.AllocationTimestamp != nil && conditioned(c) && a.AllocationTimestamp.Add(d.timeout).Before(now)
}

// lost reports whether the devices of a claim will not become ready.
func (d *Devices) lost(c *resourcev1.ResourceClaim, now time.Time) bool {
	is, err := ready(c)
	return err != nil || !is && d.late(c, now)
}

// untilBound waits until all devices that must be ready are ready.
func (a *allocation) untilBound(ctx context.Context, access plugin.Access) error {
	if !slices.ContainsFunc(a.reserved, func(c claimChange) bool { return conditioned(c.wanted) }) {
		return nil
	}
	access.RecordEvent("BindingConditionsPending", "waiting for binding conditions for device on node "+a.node)
	began := time.Now()
	err := a.wait(ctx, access)
	a.count(access, err, time.Since(began))
	return err
}

// count counts a wait for each device.
func (a *allocation) count(access plugin.Access, err error, took time.Duration) {
	w := plugin.DeviceWait{Took: took, Outcome: "success"}
	switch {
	case errors.Is(err, errBindingTimeout):
		w.Outcome = "timeout"
	case errors.Is(err, errBindingFailed):
		w.Outcome = "failure"
	case err != nil:
		w.Outcome = "error"
	}
	for _, c := range a.reserved {
		for i := range c.wanted.Status.Allocation.Devices.Results {
			r := &c.wanted.Status.Allocation.Devices.Results[i]
			w.Driver, w.Conditioned = r.Driver, len(r.BindingConditions) > 0
			access.CountDeviceWait(w)
		}
	}
}

// wait waits until all devices are ready.
func (a *allocation) wait(ctx context.Context, access plugin.Access) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.rule.timeout, fmt.Errorf("%w: %w", errBindingTimeout, context.DeadlineExceeded))
	defer cancel()
	for {
		changed := access.Changed()
		var done bool
		var err error
		access.WithState(func(*cluster.State) { done, err = a.isBound(time.Now()) })
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isBound reports whether the devices of all claims are ready in the API.
func (a *allocation) isBound(now time.Time) (bool, error) {
	for _, c := range a.reserved {
		key := claimKey(c.was)
		claim, ok := a.state.Devices.Claim(key)
		switch {
		case !ok:
			return false, fmt.Errorf("resourceclaim.resource.k8s.io %q not found", key.Name)
		case a.state.Devices.Assumed(key):
			return false, nil // the API does not show the written claim yet
		}
		is, err := ready(claim)
		switch {
		case err != nil:
			return false, err
		case !is && a.rule.late(claim, now):
			return false, fmt.Errorf("%w: claim=%s", errBindingTimeout, claim.Name)
		case !is:
			return false, nil
		}
	}
	return true, nil
}
