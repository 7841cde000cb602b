// Package slice has what the loops that write EndpointSlices share: finding their slices, and writing them.
package slice

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/service"
	"github.com/millrace/millrace/loop"
)

// Plan has the necessary writes.
type Plan struct {
	Create []*discoveryv1.EndpointSlice
	Update []*discoveryv1.EndpointSlice // copies with their resource versions
	Delete []*discoveryv1.EndpointSlice
}

// Sync is what one sync has found and done.
type Sync struct {
	Took time.Duration
	Err  error
	// Endpoints are those that should exist, and Ideal the slices that they would fill. Slices are those that exist
	// afterwards.
	Endpoints, Ideal, Slices int
	// Added, Updated and Removed are endpoints. Skipped are addresses that get no endpoint.
	Added, Updated, Removed, Skipped int
	// Created, Changed and Deleted are slices.
	Created, Changed, Deleted int
	// Distribution is the trafficDistribution of the Service.
	Distribution string
}

// Sync returns what the plan does to the existing slices.
func (p *Plan) Sync(existing []*discoveryv1.EndpointSlice) Sync {
	s := Sync{Created: len(p.Create), Changed: len(p.Update), Deleted: len(p.Delete)}
	s.Slices = len(existing) + s.Created - s.Deleted
	if s.Created+s.Changed+s.Deleted == 0 {
		return s // as nearly always
	}
	written, after := map[string]bool{}, map[string]*discoveryv1.Endpoint{}
	for _, slice := range slices.Concat(p.Create, p.Update) {
		written[slice.Name] = true
		for i := range slice.Endpoints {
			after[slice.Endpoints[i].Addresses[0]] = &slice.Endpoints[i]
		}
	}
	for _, slice := range p.Delete {
		written[slice.Name] = true
	}
	for _, old := range existing {
		if !written[old.Name] {
			continue
		}
		for i := range old.Endpoints {
			now, stays := after[old.Endpoints[i].Addresses[0]]
			switch {
			case !stays:
				s.Removed++
			case !apiequality.Semantic.DeepEqual(now, &old.Endpoints[i]):
				s.Updated++
			}
			delete(after, old.Endpoints[i].Addresses[0])
		}
	}
	s.Added = len(after)
	return s
}

// Stamp sets the trigger time of all writes.
func (p *Plan) Stamp(trigger time.Time) {
	for _, slice := range slices.Concat(p.Create, p.Update) {
		service.Stamp(slice, trigger)
	}
}

// Apply creates and updates before it deletes, so that no endpoint is missing in between.
func (p *Plan) Apply(ctx context.Context, kube kubernetes.Interface, key loop.Key, cache *informer.Shared[*discoveryv1.EndpointSlice]) error {
	slices := kube.DiscoveryV1().EndpointSlices(key.Namespace)
	for _, slice := range p.Create {
		written, err := slices.Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("failed to create EndpointSlice for Service %s: %w", key, err)
		}
		loop.Wrote(ctx, cache, written.ResourceVersion)
	}
	for _, slice := range p.Update {
		written, err := slices.Update(ctx, slice, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("failed to update %s EndpointSlice for Service %s: %w", slice.Name, key, err)
		}
		loop.Wrote(ctx, cache, written.ResourceVersion)
	}
	for _, slice := range p.Delete {
		err := slices.Delete(ctx, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to delete %s EndpointSlice for Service %s: %w", slice.Name, key, err)
		}
		loop.Removed(ctx, cache, slice)
	}
	return nil
}

// PortsText returns ports as canonical text.
func PortsText(ports []discoveryv1.EndpointPort) string {
	var out []string
	for _, p := range ports {
		out = append(out, fmt.Sprintf("%s/%s/%d/%s", value(p.Name), value(p.Protocol), value(p.Port), value(p.AppProtocol)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func value[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}
