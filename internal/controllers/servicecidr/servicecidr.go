// Package servicecidr maintains the address ranges of Services.
//
// Guarantees: a ServiceCIDR that is not being deleted has the finalizer networking.k8s.io/service-cidr-finalizer and is
// Ready. One that is being deleted loses the finalizer when every address in it is also in another range, but ten
// seconds after its deletion at the earliest, so that every API server has stopped allocating from it.
package servicecidr

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworking "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name      = "service-cidr-controller"
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	allocator = "ipallocator.k8s.io"
	grace     = 10 * time.Second
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, New: New}

type controller struct {
	kube      kubernetes.Interface
	now       func() time.Time
	recorder  loop.Recorder
	ranges    *informer.Shared[*networkingv1.ServiceCIDR]
	addresses *informer.Shared[*networkingv1.IPAddress]
}

// New returns the loop. Its keys are ServiceCIDRs.
func New(c *loop.Clients) (loop.Runner, error) {
	r := &controller{
		kube: c.Kube, now: c.Now, recorder: c.Recorder,
		ranges:    loop.Informer(c, informer.For(c.Kube.NetworkingV1().ServiceCIDRs())),
		addresses: loop.Informer(c, informer.For(c.Kube.NetworkingV1().IPAddresses())),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 5, Sync: r.sync,
		Watches: []loop.Watch{
			loop.Self(r.ranges),
			loop.Mapped(r.ranges, r.overlapping),
			loop.Changes(r.addresses, r.released),
		},
	}, nil
}

// overlapping returns the ranges that a change of another range may concern: those that are being deleted.
func (r *controller) overlapping(changed *networkingv1.ServiceCIDR) []loop.Key {
	var keys []loop.Key
	for other := range r.ranges.List() {
		if other.DeletionTimestamp != nil && other.Name != changed.Name {
			keys = append(keys, informer.KeyOf(other))
		}
	}
	return keys
}

// released returns the ranges that a deleted address may have kept.
func (r *controller) released(before, after *networkingv1.IPAddress) []loop.Key {
	if after != nil || before == nil {
		return nil
	}
	address, err := netip.ParseAddr(before.Name)
	if err != nil {
		return nil
	}
	var keys []loop.Key
	for c := range r.ranges.List() {
		if c.DeletionTimestamp != nil && slices.ContainsFunc(prefixes(c), func(p netip.Prefix) bool { return p.Contains(address) }) {
			keys = append(keys, informer.KeyOf(c))
		}
	}
	return keys
}

func prefixes(c *networkingv1.ServiceCIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	c, ok := r.ranges.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	if c.DeletionTimestamp != nil {
		return r.release(ctx, key, c)
	}
	if !slices.Contains(c.Finalizers, finalizer) {
		changed := c.DeepCopy()
		changed.Finalizers = append(changed.Finalizers, finalizer)
		if err := r.update(ctx, key, changed); err != nil {
			return loop.Result{}, err
		}
	}
	err := r.condition(ctx, key, c, metav1.Condition{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready",
	})
	if err != nil && !apierrors.IsNotFound(err) {
		r.recorder.Eventf(c, corev1.EventTypeWarning, "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
	}
	return loop.Result{}, err
}

// release removes the finalizer of a range that is being deleted, if no address needs it.
func (r *controller) release(ctx context.Context, key loop.Key, c *networkingv1.ServiceCIDR) (loop.Result, error) {
	if !slices.Contains(c.Finalizers, finalizer) {
		return loop.Result{}, nil
	}
	if needed(c, r.ranges.List(), r.addresses.List()) {
		return loop.Result{}, r.condition(ctx, key, c, metav1.Condition{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if left := grace - r.now().Sub(c.DeletionTimestamp.Time); left > 0 {
		return loop.Result{After: left}, nil
	}
	if needed, err := r.stillNeeded(ctx, c); err != nil {
		return loop.Result{}, err
	} else if needed {
		return loop.Result{}, loop.ErrBehind
	}
	changed := c.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == finalizer })
	return loop.Result{}, r.update(ctx, key, changed)
}

// stillNeeded asks the API what [needed] says: a range goes for good, and the cache may not show the last address in
// it, or that the other range with its addresses is gone.
func (r *controller) stillNeeded(ctx context.Context, c *networkingv1.ServiceCIDR) (bool, error) {
	ranges, err := r.kube.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list the ranges beside service CIDR %s: %w", c.Name, err)
	}
	addresses, err := r.kube.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list the addresses that may be in service CIDR %s: %w", c.Name, err)
	}
	return needed(c, pointers(ranges.Items), pointers(addresses.Items)), nil
}

func pointers[T any](all []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}

// needed reports whether an address would be in no range without this one.
func needed(c *networkingv1.ServiceCIDR, ranges iter.Seq[*networkingv1.ServiceCIDR], addresses iter.Seq[*networkingv1.IPAddress]) bool {
	others := others(c, ranges)
	inside := func(within netip.Prefix, p netip.Prefix) bool {
		return within.Bits() <= p.Bits() && within.Contains(p.Addr())
	}
	var alone []netip.Prefix
	for _, p := range prefixes(c) {
		if !slices.ContainsFunc(others, func(o netip.Prefix) bool { return inside(o, p) }) {
			alone = append(alone, p)
		}
	}
	if len(alone) == 0 {
		return false
	}
	for a := range addresses {
		address, err := netip.ParseAddr(a.Name)
		if err != nil || a.Labels[networkingv1.LabelManagedBy] != allocator {
			continue
		}
		holds := func(p netip.Prefix) bool { return p.Contains(address) }
		if slices.ContainsFunc(alone, holds) && !slices.ContainsFunc(others, holds) {
			return true
		}
	}
	return false
}

// others returns all ranges except those of one ServiceCIDR.
func others(c *networkingv1.ServiceCIDR, ranges iter.Seq[*networkingv1.ServiceCIDR]) []netip.Prefix {
	var out []netip.Prefix
	for other := range ranges {
		if other.Name != c.Name {
			out = append(out, prefixes(other)...)
		}
	}
	return out
}

func (r *controller) update(ctx context.Context, key loop.Key, changed *networkingv1.ServiceCIDR) error {
	written, err := r.kube.NetworkingV1().ServiceCIDRs().Update(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("update the finalizers of service CIDR %s: %w", key.Name, err)
	}
	loop.Wrote(ctx, r.ranges, written.ResourceVersion)
	return nil
}

// condition writes a condition, unless it is set already.
func (r *controller) condition(ctx context.Context, key loop.Key, c *networkingv1.ServiceCIDR, wanted metav1.Condition) error {
	if has := apimeta.FindStatusCondition(c.Status.Conditions, wanted.Type); has != nil && has.Status == wanted.Status && has.Reason == wanted.Reason && has.Message == wanted.Message {
		return nil
	}
	apply := applynetworking.ServiceCIDR(c.Name).WithStatus(applynetworking.ServiceCIDRStatus().WithConditions(
		applymeta.Condition().WithType(wanted.Type).WithStatus(wanted.Status).WithReason(wanted.Reason).WithMessage(wanted.Message).WithLastTransitionTime(metav1.NewTime(r.now()))))
	written, err := r.kube.NetworkingV1().ServiceCIDRs().ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: name, Force: true})
	if err != nil {
		return fmt.Errorf("write the condition of service CIDR %s: %w", key.Name, err)
	}
	loop.Wrote(ctx, r.ranges, written.ResourceVersion)
	return nil
}
