package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace/millrace/internal/server/store"
)

// leases is the key prefix of the leases.
const leases = "/registry/masterleases/"

func (r *Reconciler) key() string { return leases + r.o.Address.Addr().String() }

// renew writes the lease of this server again.
func (r *Reconciler) renew(ctx context.Context) error {
	old, err := r.o.Store.Get(ctx, r.key(), store.GetOptions{})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("lease: %w", err)
	}
	value, encodeErr := r.lease(int64(old.Revision))
	if encodeErr != nil {
		return fmt.Errorf("lease: %w", encodeErr)
	}
	if err != nil {
		_, err = r.o.Store.Create(ctx, r.key(), value, leaseTime)
	} else {
		_, err = r.o.Store.Update(ctx, r.key(), value, old.Revision, leaseTime)
	}
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// lease encodes a lease as kube-apiserver does: an Endpoints object with one address. The generation makes each value
// different.
func (r *Reconciler) lease(generation int64) ([]byte, error) {
	e := corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: r.o.Address.Addr().String()}}}}}
	e.Generation = generation
	raw, err := e.Marshal()
	if err != nil {
		return nil, err
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, Raw: raw}
	body, err := u.Marshal()
	return append([]byte("k8s\x00"), body...), err
}

// release removes the lease of this server.
func (r *Reconciler) release(ctx context.Context) error {
	e, err := r.o.Store.Get(ctx, r.key(), store.GetOptions{})
	if err == nil {
		_, err = r.o.Store.Delete(ctx, r.key(), e.Revision)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// servers returns the addresses that have a lease, sorted.
func (r *Reconciler) servers(ctx context.Context) ([]netip.Addr, error) {
	page, err := r.o.Store.List(ctx, leases, store.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("leases: %w", err)
	}
	var all []netip.Addr
	for _, e := range page.Entries {
		if address, err := netip.ParseAddr(strings.TrimPrefix(e.Key, leases)); err == nil {
			all = append(all, address)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all, nil
}
