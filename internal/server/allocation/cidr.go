package allocation

import (
	"context"
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// defaultCIDR is the name of the cluster's own ServiceCIDR.
const defaultCIDR = "kubernetes"

// ensureCIDR creates the cluster's own ServiceCIDR. If it exists, it stays as it is, except that a second family may be
// added.
func (s *Services) ensureCIDR(ctx context.Context) error {
	storage, err := s.storage(serviceCIDRs)
	if err != nil {
		return err
	}
	var want []string
	for _, p := range s.options.Ranges {
		want = append(want, p.String())
	}
	found, err := storage.Get(ctx, "", defaultCIDR, registry.Freshness{})
	switch {
	case apierrors.IsNotFound(err):
		o := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: defaultCIDR}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: want}}
		storage.Kind().Default(o)
		if _, err := storage.Create(ctx, "", o, registry.WriteOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the service range: %w", err)
		}
		return s.markReady(ctx, storage)
	case err != nil:
		return fmt.Errorf("read the service range: %w", err)
	}
	decoded, err := storage.Kind().Decode(ctx, found.Value(), found.Revision.String())
	if err != nil {
		return err
	}
	o := decoded.(*networkingv1.ServiceCIDR)
	if have := o.Spec.CIDRs; len(have) == 1 && len(want) == 2 && have[0] == want[0] {
		if err := s.extend(ctx, storage, want); err != nil {
			return err
		}
	} else if !slices.Equal(have, want) {
		s.options.Logger.Warn("the cluster was created with another service range and keeps it", "range", have, "asked", want)
	}
	if isReady(o) {
		return nil
	}
	return s.markReady(ctx, storage)
}

func (s *Services) extend(ctx context.Context, storage *registry.Storage, want []string) error {
	_, _, err := storage.Update(ctx, "", defaultCIDR, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*networkingv1.ServiceCIDR)
		o.Spec.CIDRs = want
		return o, nil
	}, registry.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("add a family to the service range: %w", err)
	}
	return nil
}

func isReady(c *networkingv1.ServiceCIDR) bool { return len(c.Status.Conditions) > 0 }

func (s *Services) markReady(ctx context.Context, storage *registry.Storage) error {
	_, _, err := storage.Update(ctx, "", defaultCIDR, func(_ context.Context, old resource.Object) (resource.Object, error) {
		o := old.DeepCopyObject().(*networkingv1.ServiceCIDR)
		if isReady(o) {
			return o, nil
		}
		o.Status.Conditions = []metav1.Condition{{
			Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(s.options.Now()), Message: "Kubernetes default Service CIDR is ready",
		}}
		return o, nil
	}, registry.UpdateOptions{View: "status", Own: true})
	if err != nil {
		return fmt.Errorf("mark the service range as ready: %w", err)
	}
	return nil
}
