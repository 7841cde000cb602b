package resourcequota

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/quota"
)

// deviceUse returns a function that computes what a resource claim uses. That depends on the names of device classes,
// and on pods: what a pod asks for is counted with it, and not once more with the claim that the scheduler makes for
// that.
func (r *controller) deviceUse(ctx context.Context, claims *counter, namespace string) (func(*share) corev1.ResourceList, error) {
	resources := map[string]string{}
	classes, err := r.synced(ctx, deviceClasses)
	if err != nil {
		return nil, err
	}
	if classes != nil {
		for s := range classes.shares.List() {
			resources[s.Class] = s.Resource
		}
	}
	first := map[types.UID]*quota.Special{}
	for s := range claims.shares.ListNamespace(namespace) {
		if c := s.Special; c != nil && (first[c.Pod.UID] == nil || c.Before(first[c.Pod.UID])) {
			first[c.Pod.UID] = c
		}
	}
	var owners *counter
	if len(first) > 0 {
		if owners, err = r.synced(ctx, pods); err != nil {
			return nil, err
		}
	}
	return func(s *share) corev1.ResourceList {
		var paid corev1.ResourceList
		if c := s.Special; c != nil && owners != nil {
			pod, ok := owners.shares.Lookup(informer.Key{Namespace: namespace, Name: c.Pod.Name})
			if ok && pod.Pod != nil && c.PaidBy(pod.Pod, first[c.Pod.UID].Name == c.Name) {
				paid = pod.Use
			}
		}
		return quota.ResourceClaimUse(s.Devices, func(class string) string { return resources[class] }, paid)
	}, nil
}

// synced returns the counter of a kind when it has all objects; nil if there is no such kind.
func (r *controller) synced(ctx context.Context, kind schema.GroupResource) (*counter, error) {
	c, err := r.counter(kind)
	if c == nil || err != nil {
		return nil, err
	}
	if err := c.shares.Synced(ctx); err != nil {
		return nil, fmt.Errorf("count %s: %w", kind, err)
	}
	return c, nil
}
