package loop

import (
	"context"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/millrace/millrace/internal/sleep"
)

// candidate takes part in an election for one process. Only one goroutine uses it at a time.
type candidate struct {
	Election
	clients *Clients

	// seen is the lease as it was last read. changed is when this process noticed its last change: the clocks of other
	// processes are not trusted.
	seen    *coordinationv1.Lease
	changed time.Time
}

// acquire waits until this process holds the lease, and returns when the successful request began. It returns false if
// ctx ends first.
func (c *candidate) acquire(ctx context.Context) (since time.Time, won bool) {
	for ctx.Err() == nil {
		began := time.Now()
		held, err := c.try(ctx)
		switch {
		case held:
			c.record("%s became leader", c.Identity)
			return began, true
		case err != nil && ctx.Err() == nil:
			c.clients.log().WarnContext(ctx, "lease could not be acquired", "lease", c.Lease.String(), "err", err)
		}
		sleep.For(ctx, c.RetryPeriod+time.Duration(rand.Float64()*0.2*float64(c.RetryPeriod)))
	}
	return time.Time{}, false
}

func (c *candidate) leases() typedcoordinationv1.LeaseInterface {
	return c.clients.Kube.CoordinationV1().Leases(c.Lease.Namespace)
}

// try acquires or renews the lease. It returns false without an error if another process holds it. One request may take
// half of the deadline at most, so that there is time for another one if it hangs.
func (c *candidate) try(ctx context.Context) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.RetryPeriod, c.RenewDeadline/2))
	defer cancel()
	if c.seen != nil && c.holds(c.seen) {
		if err := c.write(ctx, c.seen); err == nil || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err == nil, err
		}
		c.Metrics.Read()
	}
	lease, err := c.leases().Get(ctx, c.Lease.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return c.create(ctx)
	case err != nil:
		return false, err
	}
	if c.seen == nil || !equality.Semantic.DeepEqual(c.seen.Spec, lease.Spec) {
		c.changed = time.Now()
	}
	c.seen = lease
	if !c.holds(lease) && holderOf(lease) != "" && time.Since(c.changed) < c.lasts(lease) {
		return false, nil
	}
	err = c.write(ctx, lease)
	if apierrors.IsConflict(err) {
		return false, nil // another process was faster: the next try shows which
	}
	return err == nil, err
}

func (c *candidate) create(ctx context.Context) (held bool, err error) {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.Lease.Namespace, Name: c.Lease.Name}}
	lease.Spec = c.spec(now, now, 0)
	made, err := c.leases().Create(ctx, lease, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err == nil {
		c.seen, c.changed = made, time.Now()
	}
	return err == nil, err
}

// write makes this process the holder of a lease, unless the lease was changed meanwhile.
func (c *candidate) write(ctx context.Context, lease *coordinationv1.Lease) error {
	now := metav1.NowMicro()
	acquired, transitions := now, int32(0)
	if lease.Spec.LeaseTransitions != nil {
		transitions = *lease.Spec.LeaseTransitions
	}
	if !c.holds(lease) {
		transitions++
	} else if lease.Spec.AcquireTime != nil {
		acquired = *lease.Spec.AcquireTime
	}
	lease = lease.DeepCopy()
	lease.Spec = c.spec(acquired, now, transitions)
	return c.update(ctx, lease)
}

func (c *candidate) update(ctx context.Context, lease *coordinationv1.Lease) error {
	written, err := c.leases().Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		c.seen, c.changed = written, time.Now()
	}
	return err
}

func (c *candidate) spec(acquired, renewed metav1.MicroTime, transitions int32) coordinationv1.LeaseSpec {
	seconds := max(1, int32(c.LeaseDuration/time.Second))
	return coordinationv1.LeaseSpec{
		HolderIdentity: &c.Identity, LeaseDurationSeconds: &seconds,
		AcquireTime: &acquired, RenewTime: &renewed, LeaseTransitions: &transitions,
	}
}

// release gives the lease up, unless that takes longer than the lease is valid.
func (c *candidate) release(ctx context.Context, expires time.Time) {
	c.record("%s stopped leading", c.Identity)
	if c.seen == nil || !c.holds(c.seen) || !time.Now().Before(expires) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, expires)
	defer cancel()
	lease := c.seen.DeepCopy()
	nobody, second, now := "", int32(1), metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &nobody, &second, &now
	if err := c.update(ctx, lease); err != nil {
		c.clients.log().WarnContext(ctx, "lease could not be given up: others wait until it runs out", "lease", c.Lease.String(), "err", err)
	}
}

func (c *candidate) holds(lease *coordinationv1.Lease) bool { return holderOf(lease) == c.Identity }

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// lasts returns how long the holder of a lease may take to renew it.
func (c *candidate) lasts(lease *coordinationv1.Lease) time.Duration {
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return c.LeaseDuration
}

func (c *candidate) record(format string, args ...any) {
	if c.clients.Recorder == nil || c.seen == nil {
		return
	}
	c.clients.Recorder.Eventf(c.seen, corev1.EventTypeNormal, "LeaderElection", format, args...)
}
