package admission

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// bounds hold what something asks for against one item of a LimitRange.
type bounds struct {
	kind             string
	requests, limits corev1.ResourceList
}

func (b *bounds) each(enforced corev1.ResourceList, check func(corev1.ResourceName, resource.Quantity) error) []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(enforced)) {
		if err := check(name, enforced[name]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (b *bounds) belowMin(name corev1.ResourceName, least resource.Quantity) error {
	request, asked := b.requests[name]
	limit, bounded := b.limits[name]
	switch {
	case !asked:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, b.kind, least.String())
	case request.Cmp(least) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, b.kind, least.String(), request.String())
	case bounded && limit.Cmp(least) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, b.kind, least.String(), limit.String())
	}
	return nil
}

func (b *bounds) aboveMax(name corev1.ResourceName, most resource.Quantity) error {
	request, asked := b.requests[name]
	limit, bounded := b.limits[name]
	switch {
	case !bounded:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, b.kind, most.String())
	case limit.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, b.kind, most.String(), limit.String())
	case asked && request.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.kind, most.String(), request.String())
	}
	return nil
}

// requestAboveMax is for what knows no limits.
func (b *bounds) requestAboveMax(name corev1.ResourceName, most resource.Quantity) error {
	request, asked := b.requests[name]
	switch {
	case !asked:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, b.kind, most.String())
	case request.Cmp(most) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, b.kind, most.String(), request.String())
	}
	return nil
}

func (b *bounds) aboveRatio(name corev1.ResourceName, most resource.Quantity) error {
	request, asked := b.requests[name]
	limit, bounded := b.limits[name]
	switch {
	case !asked || request.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, b.kind, most.String())
	case !bounded || limit.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, b.kind, most.String())
	}
	if ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64(); ratio > most.AsApproximateFloat64() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, b.kind, most.String(), ratio)
	}
	return nil
}
