// Package endpoints maintains the Service "kubernetes" and its endpoints, through which pods reach the API servers of a
// cluster.
//
// It works as kube-apiserver does, and beside it: every 10 seconds each server renews a lease of 15 seconds in the
// store, under /registry/masterleases/ and its address. Guarantees while Run runs:
//
//   - The Service, the Endpoints and the EndpointSlice "kubernetes" in the namespace "default" exist. Changes and
//     deletions by others are repaired within 10 seconds.
//   - They name the servers that have a lease: a server that crashes is removed after 15 to 25 seconds, one that shuts
//     down at once.
//
// Besides, each server has an identity lease in kube-system: see Identity.
//
// The last server leaves its address in the endpoints when it ends. Pods that know an address without a server try
// again, but pods that find no address give up.
package endpoints

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/server/store"
)

const (
	// leaseTime and renewEvery are kube-apiserver's, so that servers of both kinds agree on which are alive.
	leaseTime  = 15 * time.Second
	renewEvery = 10 * time.Second
	// removeTimeout bounds how long a server that shuts down tries to remove itself.
	removeTimeout = time.Second
)

// Options configures a Reconciler. All fields but Logger are required.
type Options struct {
	// Address is the address at which pods reach this server.
	Address netip.AddrPort
	// ServiceIP is the address of the Service.
	ServiceIP netip.Addr
	// Store keeps the leases.
	Store store.Store
	// Config is the client configuration for the API.
	Config *rest.Config
	Logger *slog.Logger
}

// Reconciler maintains the endpoints of one server.
type Reconciler struct {
	o         Options
	core      corev1client.CoreV1Interface
	discovery discoveryv1client.DiscoveryV1Interface
	failing   bool // the last attempt failed, and that was logged
}

// New makes a reconciler. It starts nothing: see Run.
func New(o Options) (*Reconciler, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	core, err := corev1client.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	discovery, err := discoveryv1client.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	return &Reconciler{o: o, core: core, discovery: discovery}, nil
}

// Run maintains the endpoints until ctx ends, and then removes this server from them.
func (r *Reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		r.logOnce(ctx, r.keep(ctx))
		select {
		case <-ctx.Done():
			r.leave(context.WithoutCancel(ctx))
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// logOnce logs a failure once, until the next success.
func (r *Reconciler) logOnce(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil && !r.failing {
		r.o.Logger.Warn("the endpoints of the API server cannot be updated; trying again", "error", err)
	}
	r.failing = err != nil
}

// keep renews the lease and repairs the objects.
func (r *Reconciler) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	return errors.Join(r.renew(ctx), r.reconcileService(ctx), r.reconcile(ctx))
}

// leave removes this server, unless it is the last.
func (r *Reconciler) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	err := r.release(ctx)
	if err == nil {
		err = r.reconcile(ctx)
	}
	if err != nil && !errors.Is(err, errNoServer) {
		r.o.Logger.Warn("this server stays in the endpoints of the API until its lease ends", "error", err)
	}
}

// errNoServer says that no server has a lease.
var errNoServer = errors.New("no API server has a lease")

// reconcile makes the endpoints name the servers that have a lease.
func (r *Reconciler) reconcile(ctx context.Context) error {
	present, err := r.servers(ctx)
	if err != nil {
		return err
	}
	if len(present) == 0 {
		return errNoServer
	}
	if err := r.reconcileEndpoints(ctx, present); err != nil {
		return fmt.Errorf("endpoints: %w", err)
	}
	if err := r.reconcileSlice(ctx, present); err != nil {
		return fmt.Errorf("endpoint slice: %w", err)
	}
	return nil
}
