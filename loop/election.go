package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// ErrLeadershipLost is what an elected Runner returns when another process
// may have taken over. The usual answer is to end the process.
var ErrLeadershipLost = errors.New("leadership lost")

// Election is a race of processes for a Lease.
type Election struct {
	Lease Key
	// Identity must differ between processes. Empty: the host's name and a
	// random part.
	Identity string
	// LeaseDuration is how long others wait for a leader that does not renew,
	// RenewDeadline how long the leader itself tries before it gives up,
	// RetryPeriod the time between tries. 0 means 15 s, 10 s and 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Elected runs r only while this process leads. When ctx ends, r stops first
// and the lease is given up after that, so that the next leader never overlaps with
// this one. It returns [ErrLeadershipLost] if the lease could not be renewed.
func Elected(c *Clients, e Election, r Runner) Runner {
	return Func(func(ctx context.Context) error {
		// The elector outlives ctx: it holds the lease until r has stopped.
		candidacy, resign := context.WithCancel(context.WithoutCancel(ctx))
		defer resign()
		won := make(chan context.Context)
		elector, err := e.elector(c, won)
		if err != nil {
			return err
		}
		var electing sync.WaitGroup
		electing.Go(func() {
			log := logr.FromSlogHandler(c.log().Handler()).WithValues("lease", e.Lease.String())
			elector.Run(klog.NewContext(candidacy, log))
		})
		defer electing.Wait()
		defer resign()
		select {
		case leading := <-won:
			return lead(ctx, leading, r)
		case <-ctx.Done():
			return nil
		}
	})
}

// lead runs r until either ctx or the leadership ends.
func lead(ctx, leading context.Context, r Runner) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(leading, stop)()
	err := r.Run(work)
	if err == nil && ctx.Err() == nil && leading.Err() != nil {
		return ErrLeadershipLost
	}
	return err
}

func (e Election) elector(c *Clients, won chan<- context.Context) (*leaderelection.LeaderElector, error) {
	identity := e.Identity
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("identity for the election of %s: %w", e.Lease, err)
		}
		identity = host + "_" + string(uuid.NewUUID())
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: e.Lease.Name,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Lease.Namespace, Name: e.Lease.Name},
			Client:     c.Kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity, EventRecorder: c.Recorder},
		},
		LeaseDuration:   cmp.Or(e.LeaseDuration, 15*time.Second),
		RenewDeadline:   cmp.Or(e.RenewDeadline, 10*time.Second),
		RetryPeriod:     cmp.Or(e.RetryPeriod, 2*time.Second),
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			// Called in a goroutine of its own that nobody waits for: so it only
			// hands over the news, and ends with the leadership at the latest.
			OnStartedLeading: func(leading context.Context) {
				select {
				case won <- leading:
				case <-leading.Done():
				}
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("election of %s: %w", e.Lease, err)
	}
	return elector, nil
}
