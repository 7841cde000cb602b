package resourcequota

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/controllers/internal/kinds"
	"github.com/millrace/millrace/internal/quota"
	"github.com/millrace/millrace/loop"
)

// syncTimeout is how long a count waits for a cache to fill.
const syncTimeout = 10 * time.Second

// count returns the usage of each resource in a quota. all is false if discovery does not show the kind of one.
func (r *controller) count(ctx context.Context, q *corev1.ResourceQuota) (used corev1.ResourceList, all bool, err error) {
	used, all = corev1.ResourceList{}, true
	sums := map[schema.GroupResource]corev1.ResourceList{}
	for name := range q.Spec.Hard {
		for i, kind := range kindsOf(name) {
			sum, counted := sums[kind]
			if !counted {
				if sum, err = r.sum(ctx, kind, q); err != nil {
					return nil, false, err
				}
				sums[kind] = sum
			}
			if sum == nil {
				all = all && i > 0 // without the second kind there is nothing more to count
				continue
			}
			total := used[name].DeepCopy()
			total.Add(sum[name]) // zero if there is none
			used[name] = total
		}
	}
	return used, all, nil
}

// sum returns the usage of all objects of a kind, or nil if there is no such kind.
func (r *controller) sum(ctx context.Context, kind schema.GroupResource, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	c, err := r.synced(ctx, kind)
	if c == nil || err != nil {
		return nil, err
	}
	use := func(s *share) corev1.ResourceList { return s.Use }
	if kind == quota.ResourceClaims {
		if use, err = r.deviceUse(ctx, c, q.Namespace); err != nil {
			return nil, err
		}
	}
	total := corev1.ResourceList{}
	for s := range c.shares.ListNamespace(q.Namespace) {
		if quota.Covers(q, s.Scoped) {
			addAll(total, use(&s))
		}
	}
	return total, nil
}

func addAll(total, more corev1.ResourceList) {
	for name, n := range more {
		sum, there := total[name]
		if !there {
			sum = n.DeepCopy()
		} else {
			sum.Add(n)
		}
		total[name] = sum
	}
}

// kindsOf returns the kinds whose objects use a resource.
func kindsOf(name corev1.ResourceName) []schema.GroupResource {
	extended, requests := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	switch {
	case quota.IsDevices(name):
		return []schema.GroupResource{quota.ResourceClaims}
	case requests && strings.Contains(extended, "/"): // a device class may stand for it
		return []schema.GroupResource{pods, quota.ResourceClaims}
	}
	return []schema.GroupResource{kindOf(name)}
}

// kindOf returns the only kind whose objects use a resource.
func kindOf(name corev1.ResourceName) schema.GroupResource {
	text := string(name)
	if counted, ok := strings.CutPrefix(text, "count/"); ok {
		return schema.ParseGroupResource(counted)
	}
	switch {
	case name == corev1.ResourceRequestsStorage, strings.Contains(text, ".storageclass.storage.k8s.io/"):
		return claims
	case name == corev1.ResourceServicesLoadBalancers, name == corev1.ResourceServicesNodePorts:
		return services
	}
	switch name {
	case corev1.ResourceServices, corev1.ResourcePersistentVolumeClaims, corev1.ResourceConfigMaps, corev1.ResourceSecrets,
		corev1.ResourceReplicationControllers, corev1.ResourceQuotas:
		return schema.GroupResource{Resource: text}
	}
	return pods
}

var (
	pods     = schema.GroupResource{Resource: "pods"}
	services = schema.GroupResource{Resource: "services"}
	claims   = schema.GroupResource{Resource: "persistentvolumeclaims"}

	deviceClasses = schema.GroupResource{Group: resourcev1.GroupName, Resource: "deviceclasses"}
)

// findLocked finds a kind in discovery. A group whose discovery fails is an error, not an absent kind.
func (r *controller) findLocked(wanted schema.GroupResource) (*kinds.Kind, error) {
	if now := r.now(); r.catalogue == nil || now.Sub(r.asked) >= rediscovery {
		found, err := kinds.Discover(r.discovery)
		if err != nil {
			return nil, err
		}
		r.catalogue, r.asked = found, now
	}
	for _, k := range r.catalogue.Kinds {
		if k.Resource.GroupResource() == wanted && (k.Namespaced || wanted == deviceClasses) && k.Can("list", "watch") {
			return k, nil
		}
	}
	if r.catalogue.FailedGroup(wanted.Group) {
		return nil, fmt.Errorf("find %s: %w", wanted, r.catalogue.Failure())
	}
	return nil, nil
}

// wake wakes the quotas of a namespace that count a kind.
func (r *controller) wake(kind schema.GroupResource, namespace string, by cause.Change) {
	r.wakeThose(kind, r.quotas.ListNamespace(namespace), by)
}

// wakeThose wakes those of some quotas that count a kind.
func (r *controller) wakeThose(kind schema.GroupResource, quotas iter.Seq[*corev1.ResourceQuota], by cause.Change) {
	for q := range quotas {
		for name := range q.Spec.Hard {
			if slices.Contains(kindsOf(name), kind) {
				r.loop.AddBecauseAfter(loop.Key{Namespace: q.Namespace, Name: q.Name}, by, gather)
				break
			}
		}
	}
}
