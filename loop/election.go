package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/millrace/millrace/internal/sleep"
)

// ErrLeadershipLost is returned by an elected Runner when another process may have become the leader. Usually the
// process should end then.
var ErrLeadershipLost = errors.New("leadership lost")

// Election describes a leader election with a Lease.
type Election struct {
	Lease Key
	// Identity must be different in each process. Empty means the host name and a random part.
	Identity string
	// LeaseDuration is how long other processes wait for a leader that does not renew. RenewDeadline is how long the
	// leader itself tries before it stops its work. RetryPeriod is the time between tries. 0 means 15 s, 10 s and 2 s.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Overrun is called if the work has not stopped when the lease expires. From then on two processes may lead. If it
	// is nil the process panics.
	Overrun func()
	// Metrics counts what becomes of the election. It may be nil.
	Metrics ElectionMetrics
}

// ElectionMetrics receives what becomes of an election.
type ElectionMetrics interface {
	// Leads says whether this process leads.
	Leads(leads bool)
	// Read is called when the leader has to read its lease, because somebody else has written it.
	Read()
}

type noElectionMetrics struct{}

func (noElectionMetrics) Leads(bool) {}
func (noElectionMetrics) Read()      {}

// Elected runs r only while this process leads.
//
// The lease is renewed until r has stopped, and given up after that, so that two leaders never overlap. If the lease
// cannot be renewed for RenewDeadline, because the API server fails, hangs or reports another leader, r is stopped and
// Elected returns [ErrLeadershipLost]. r must stop before the lease expires: see [Election.Overrun].
func Elected(c *Clients, e Election, r Runner) Runner {
	return Func(func(ctx context.Context) error {
		e, err := e.complete()
		if err != nil {
			return err
		}
		candidate := &candidate{Election: e, clients: c}
		since, won := candidate.acquire(ctx)
		if !won {
			return nil
		}
		e.Metrics.Leads(true)
		defer e.Metrics.Leads(false)
		term := &term{candidate: candidate, since: since, renewed: make(chan time.Time), lost: make(chan struct{})}
		return term.run(ctx, r)
	})
}

// complete sets the defaults.
func (e Election) complete() (Election, error) {
	e.LeaseDuration = cmp.Or(e.LeaseDuration, 15*time.Second)
	e.RenewDeadline = cmp.Or(e.RenewDeadline, 10*time.Second)
	e.RetryPeriod = cmp.Or(e.RetryPeriod, 2*time.Second)
	if e.LeaseDuration <= e.RenewDeadline || e.RenewDeadline <= e.RetryPeriod {
		return e, fmt.Errorf("election of %s: the lease (%v) must last longer than the deadline (%v), and that longer than the period (%v)",
			e.Lease, e.LeaseDuration, e.RenewDeadline, e.RetryPeriod)
	}
	if e.Metrics == nil {
		e.Metrics = noElectionMetrics{}
	}
	e.Metrics.Leads(false)
	if e.Overrun == nil {
		e.Overrun = func() {
			panic(fmt.Sprintf("the work under the lease %s has not stopped although the lease has run out", e.Lease))
		}
	}
	if e.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return e, fmt.Errorf("identity for the election of %s: %w", e.Lease, err)
		}
		e.Identity = host + "_" + string(uuid.NewUUID())
	}
	return e, nil
}

// term is the time from winning an election to the end of the work.
type term struct {
	*candidate
	since   time.Time      // when the last successful renewal began
	renewed chan time.Time // receives the start of each successful renewal
	lost    chan struct{}  // closed when another process holds the lease
}

// run runs r for as long as the lease is held, and gives the lease up when r
// has stopped.
func (t *term) run(ctx context.Context, r Runner) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- r.Run(work) })

	renewing, endRenewing := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() { t.renew(renewing) })
	lost, err := t.watch(ended, stop)
	endRenewing()
	running.Wait()
	if !t.taken() {
		t.release(context.WithoutCancel(ctx), t.since.Add(t.LeaseDuration))
	}
	if err == nil && lost && ctx.Err() == nil {
		return ErrLeadershipLost
	}
	return err
}

// watch stops the work if the lease is not renewed in time, and returns when the work has ended.
func (t *term) watch(ended <-chan error, stop func()) (lost bool, err error) {
	deadline := time.NewTimer(time.Until(t.since.Add(t.RenewDeadline)))
	defer deadline.Stop()
	expiry := time.NewTimer(time.Until(t.since.Add(t.LeaseDuration)))
	defer expiry.Stop()
	taken := t.lost
	for {
		select {
		case err := <-ended:
			return lost, err
		case t.since = <-t.renewed:
			deadline.Reset(time.Until(t.since.Add(t.RenewDeadline)))
			expiry.Reset(time.Until(t.since.Add(t.LeaseDuration)))
		case <-taken:
			taken, lost = nil, true
			stop()
		case <-deadline.C:
			lost = true
			stop()
		case <-expiry.C:
			t.Overrun()
		}
	}
}

// taken reports whether another process holds the lease.
func (t *term) taken() bool {
	select {
	case <-t.lost:
		return true
	default:
		return false
	}
}

// renew renews the lease until ctx ends or another process holds it.
func (t *term) renew(ctx context.Context) {
	for {
		sleep.For(ctx, t.RetryPeriod)
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		held, err := t.try(ctx)
		switch {
		case err != nil:
			t.clients.log().WarnContext(ctx, "lease could not be renewed", "lease", t.Lease.String(), "err", err)
		case !held:
			close(t.lost)
			return
		default:
			select {
			case t.renewed <- began:
			case <-ctx.Done():
				return
			}
		}
	}
}
