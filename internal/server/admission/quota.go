package admission

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/quota"
	"github.com/millrace/millrace/internal/server/registry"
	kinds "github.com/millrace/millrace/internal/server/resource"
)

// resourceQuota charges the quotas of a namespace for what a change needs, and refuses what they do not cover. A quota
// is in force once its status says so. What is charged for a change that fails later stays charged until the quota is
// counted anew.
func (cl *cluster) resourceQuota() registry.Admission {
	return validating("ResourceQuota", func(ctx context.Context, c *registry.Change) error {
		if c.Namespace == "" || c.Object == nil || !charged(c) {
			return nil
		}
		all, err := cl.quotas.list(ctx, c.Namespace)
		if err != nil || len(all) == 0 {
			return err
		}
		return cl.charge(ctx, c, all)
	})
}

// charged tells whether a change may need more of anything.
func charged(c *registry.Change) bool {
	switch c.Operation {
	case registry.Create:
		return c.View == "" && c.Kind.Resource != "events"
	case registry.Update:
		return c.View == "" && (is(c, "", "services") || is(c, "", "persistentvolumeclaims")) || is(c, "", "pods") && (c.View == "resize" || limitsTime(c))
	}
	return false
}

// limitsTime tells whether a change gives a pod a deadline or takes it away: then other quotas cover it.
func limitsTime(c *registry.Change) bool {
	now, isPod := c.Object.(*corev1.Pod)
	before, wasPod := c.Old.(*corev1.Pod)
	return c.View == "" && isPod && wasPod && (now.Spec.ActiveDeadlineSeconds == nil) != (before.Spec.ActiveDeadlineSeconds == nil)
}

func (cl *cluster) charge(ctx context.Context, c *registry.Change, all []*corev1.ResourceQuota) error {
	kind := schema.GroupResource{Group: c.Kind.Group, Resource: c.Kind.Resource}
	whole, err := cl.use(ctx, kind, c)
	if err != nil {
		return err
	}
	more := whole
	if c.Old != nil {
		more = difference(whole, quota.Use(kind, c.Old))
	}
	type bill struct {
		quota *corev1.ResourceQuota
		delta corev1.ResourceList
	}
	var bills []bill
	for _, q := range all {
		delta := more
		if c.Old != nil && !quota.Covers(q, c.Old) {
			delta = whole
		}
		concerns, err := checkQuota(c, q, delta)
		if err != nil {
			return err
		}
		if concerns {
			bills = append(bills, bill{q, delta})
		}
	}
	if c.DryRun {
		return nil
	}
	for _, b := range bills {
		if err := cl.chargeOne(ctx, c, b.quota, b.delta); err != nil {
			return err
		}
	}
	return nil
}

// use returns what a change's object uses of quotas.
func (cl *cluster) use(ctx context.Context, kind schema.GroupResource, c *registry.Change) (corev1.ResourceList, error) {
	claim, ok := c.Object.(*resourcev1.ResourceClaim)
	if !ok {
		return quota.Use(kind, c.Object), nil
	}
	classes, err := cl.deviceClasses.list(ctx, "")
	if err != nil {
		return nil, err
	}
	resources := map[string]string{}
	for _, class := range classes {
		if name := class.Spec.ExtendedResourceName; name != nil {
			resources[class.Name] = *name
		}
	}
	paid, err := cl.paid(ctx, claim)
	return quota.ResourceClaimUse(quota.Devices(claim), func(class string) string { return resources[class] }, paid), err
}

// paid returns what is charged already for the pod of a new claim.
func (cl *cluster) paid(ctx context.Context, claim *resourcev1.ResourceClaim) (corev1.ResourceList, error) {
	special := quota.SpecialOf(claim)
	if special == nil {
		return nil, nil
	}
	pod, err := cl.pods.get(ctx, claim.Namespace, special.Pod.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	others, err := cl.claims.list(ctx, claim.Namespace)
	if err != nil {
		return nil, err
	}
	first := !slices.ContainsFunc(others, func(c *resourcev1.ResourceClaim) bool {
		other := quota.SpecialOf(c)
		return other != nil && other.Pod.UID == special.Pod.UID
	})
	if !special.PaidBy(pod, first) {
		return nil, nil
	}
	return quota.Use(schema.GroupResource{Resource: "pods"}, pod), nil
}

// difference is what a list has more than another one.
func difference(list, than corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(list)
	for name, q := range than {
		left := list[name].DeepCopy()
		left.Sub(q)
		out[name] = left
	}
	return out
}

// checkQuota tells whether a quota has to be charged, or why it does not allow the change.
func checkQuota(c *registry.Change, q *corev1.ResourceQuota, delta corev1.ResourceList) (bool, error) {
	if !quota.Covers(q, c.Object) {
		return false, nil
	}
	matching := masked(delta, q.Status.Hard)
	if pod, ok := c.Object.(*corev1.Pod); ok {
		if missing := unspecified(pod, q.Status.Hard); missing != "" {
			return false, forbidden(c, "failed quota: %s: must specify %s", q.Name, missing)
		}
	}
	var unknown []string
	for name := range matching {
		if _, known := q.Status.Used[name]; !known {
			unknown = append(unknown, string(name))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return false, forbidden(c, "status unknown for quota: %s, resources: %s", q.Name, strings.Join(unknown, ","))
	}
	return needs(matching), exceeded(c, q, matching)
}

func needs(delta corev1.ResourceList) bool {
	for _, q := range delta {
		if !q.IsZero() {
			return true
		}
	}
	return false
}

func exceeded(c *registry.Change, q *corev1.ResourceQuota, delta corev1.ResourceList) error {
	over := corev1.ResourceList{}
	for name, more := range delta {
		total := q.Status.Used[name].DeepCopy()
		total.Add(more)
		if more.Sign() > 0 && total.Cmp(q.Status.Hard[name]) > 0 {
			over[name] = more
		}
	}
	if len(over) == 0 {
		return nil
	}
	return forbidden(c, "exceeded quota: %s, requested: %s, used: %s, limited: %s",
		q.Name, listText(over), listText(masked(q.Status.Used, over)), listText(masked(q.Status.Hard, over)))
}

func listText(list corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, fmt.Sprintf("%s=%s", name, q.String()))
	}
	return strings.Join(parts, ",")
}

// masked is the part of a list that another list has too.
func masked[V any](list corev1.ResourceList, by map[corev1.ResourceName]V) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if _, ok := by[name]; ok {
			out[name] = q
		}
	}
	return out
}

// charges let the changes of one quota in this process go one after the other, so that they do not get in each other's
// way at the store.
type charges [64]sync.Mutex

var chargeSeed = maphash.MakeSeed()

func (s *charges) of(key string) *sync.Mutex {
	return &s[maphash.String(chargeSeed, key)%uint64(len(s))]
}

// chargeOne adds to what a quota says is used, unless that would be too much by now.
func (cl *cluster) chargeOne(ctx context.Context, c *registry.Change, q *corev1.ResourceQuota, delta corev1.ResourceList) error {
	storage, err := cl.quotas.storage()
	if err != nil {
		return err
	}
	turn := cl.charges.of(q.Namespace + "/" + q.Name)
	turn.Lock()
	defer turn.Unlock()
	_, _, err = storage.Update(ctx, q.Namespace, q.Name, func(_ context.Context, old kinds.Object) (kinds.Object, error) {
		now := old.DeepCopyObject().(*corev1.ResourceQuota)
		more := masked(delta, now.Status.Hard)
		if err := exceeded(c, now, more); err != nil {
			return nil, err
		}
		for name, n := range more {
			used := now.Status.Used[name].DeepCopy()
			used.Add(n)
			if used.Sign() < 0 {
				used = *resource.NewQuantity(0, used.Format)
			}
			if now.Status.Used == nil {
				now.Status.Used = corev1.ResourceList{}
			}
			now.Status.Used[name] = used
		}
		return now, nil
	}, registry.UpdateOptions{View: "status", Own: true})
	if apierrors.IsNotFound(err) {
		return nil // it was deleted, and bounds nothing any more
	}
	return err
}
