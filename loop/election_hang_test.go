package loop_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/loop"
)

// hanging makes requests for leases hang, ignoring their contexts, until it is released.
type hanging struct {
	on      atomic.Bool
	release chan struct{}
	once    sync.Once
}

func (h *hanging) react(clienttesting.Action) (bool, runtime.Object, error) {
	if h.on.Load() {
		<-h.release
	}
	return false, nil, nil
}

func (h *hanging) end() { h.once.Do(func() { h.on.Store(false); close(h.release) }) }

func TestALeaderWhoseRequestsHangStopsBeforeItsLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		hang := &hanging{release: make(chan struct{})}
		defer hang.end()
		kube.PrependReactor("*", "leases", hang.react)
		var stopped atomic.Pointer[time.Time]
		ended := make(chan error, 1)
		go func() {
			ended <- loop.Elected(loop.ClientsFor(kube), election("me"), loop.Func(func(ctx context.Context) error {
				<-ctx.Done()
				now := time.Now()
				stopped.Store(&now)
				return nil
			})).Run(t.Context())
		}()
		time.Sleep(time.Minute)
		began := time.Now()
		hang.on.Store(true)
		time.Sleep(15 * time.Second)
		if at := stopped.Load(); at == nil || at.Sub(began) > 10*time.Second {
			t.Fatalf("the work stopped at %v, the hang began at %v", at, began)
		}
		hang.end()
		if err := <-ended; !errors.Is(err, loop.ErrLeadershipLost) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestALeaderThatCannotRenewKeepsItsLeaseUntilTheWorkHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var out atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return out.Load(), nil, errors.New("no network")
		})
		var leading atomic.Int32
		work := loop.Func(func(ctx context.Context) error {
			if leading.Add(1) > 1 {
				t.Error("two lead at a time")
			}
			<-ctx.Done()
			time.Sleep(4 * time.Second) // the work takes time to stop
			leading.Add(-1)
			return nil
		})
		first := make(chan error, 1)
		go func() { first <- loop.Elected(loop.ClientsFor(kube), election("first"), work).Run(t.Context()) }()
		synctest.Wait()
		stopSecond := background(t, loop.Elected(loop.ClientsFor(kube), election("second"), work))
		time.Sleep(time.Minute)
		out.Store(true)
		time.Sleep(11 * time.Second) // the first is stopping
		out.Store(false)
		if err := <-first; !errors.Is(err, loop.ErrLeadershipLost) {
			t.Errorf("the first ended with %v", err)
		}
		time.Sleep(time.Minute)
		if leading.Load() != 1 {
			t.Error("the second did not take over")
		}
		if err := stopSecond(); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkThatDoesNotStopInTimeIsNoticedWhenTheLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var out atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return out.Load(), nil, errors.New("no network")
		})
		var overrun atomic.Pointer[time.Time]
		e := election("me")
		e.Overrun = func() { now := time.Now(); overrun.Store(&now) }
		ended := make(chan error, 1)
		go func() {
			ended <- loop.Elected(loop.ClientsFor(kube), e, loop.Func(func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				return nil
			})).Run(t.Context())
		}()
		time.Sleep(time.Minute + time.Second)
		began := time.Now()
		out.Store(true)
		if err := <-ended; !errors.Is(err, loop.ErrLeadershipLost) {
			t.Errorf("ended with %v", err)
		}
		if at := overrun.Load(); at == nil || at.Sub(began) > 15*time.Second {
			t.Errorf("noticed at %v, the outage began at %v", at, began)
		}
	})
}
