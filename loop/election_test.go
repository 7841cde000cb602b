package loop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/loop"
)

func election(identity string) loop.Election {
	return loop.Election{Lease: loop.Key{Namespace: "kube-system", Name: "mill"}, Identity: identity}
}

func TestSoleALeaderStopsBeforeTheNextOneStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := loop.ClientsFor(fake.NewClientset())
		var log journal
		candidate := func(name string) loop.Runner {
			return loop.Elected(clients, election(name), loop.Func(func(ctx context.Context) error {
				log.add(name + " starts")
				<-ctx.Done()
				time.Sleep(time.Minute) // longer than the lease lasts
				log.add(name + " has stopped")
				return nil
			}))
		}
		stopFirst := background(t, candidate("first"))
		synctest.Wait()
		stopSecond := background(t, candidate("second"))
		time.Sleep(time.Minute)
		if err := stopFirst(); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second) // the lease was given up, so nobody waits until it expires
		synctest.Wait()
		if err := stopSecond(); err != nil {
			t.Error(err)
		}
		log.want(t, "first starts", "first has stopped", "second starts", "second has stopped")
	})
}

func TestALeaderThatCannotRenewStopsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var lost, running atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return lost.Load(), nil, errors.New("no network")
		})
		ended := make(chan error, 1)
		go func() {
			ended <- loop.Elected(loop.ClientsFor(kube), election("me"), loop.Func(func(ctx context.Context) error {
				running.Store(true)
				<-ctx.Done()
				running.Store(false)
				return nil
			})).Run(t.Context())
		}()
		time.Sleep(time.Minute)
		if !running.Load() {
			t.Fatal("the only candidate does not lead")
		}
		lost.Store(true)
		if err := <-ended; !errors.Is(err, loop.ErrLeadershipLost) || running.Load() {
			t.Errorf("ended with %v, still running: %v", err, running.Load())
		}
	})
}

func TestAnElectedRunnersErrorIsReturnedAndTheLeaseGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		broken := errors.New("broken")
		err := loop.Elected(loop.ClientsFor(kube), election("me"), loop.Func(func(context.Context) error {
			return broken
		})).Run(t.Context())
		if !errors.Is(err, broken) {
			t.Errorf("ended with %v", err)
		}
		lease, err := kube.CoordinationV1().Leases("kube-system").Get(t.Context(), "mill", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if holder := *lease.Spec.HolderIdentity; holder != "" {
			t.Errorf("the lease is still held by %q", holder)
		}
	})
}

func TestAGroupElectsAllLoopsButTheUnelected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := loop.ClientsFor(fake.NewClientset())
		lead := background(t, loop.Elected(clients, election("other"), loop.Func(untilDone)))
		synctest.Wait()
		var ran journal
		list := entries(&ran)
		list[1].Unelected = true
		e := election("me")
		stop := background(t, &loop.Group{Clients: clients, Entries: list, Election: &e})
		time.Sleep(time.Minute)
		ran.want(t, "daemonset-controller")
		lead()
		time.Sleep(time.Minute)
		ran.want(t, "daemonset-controller", "job-controller")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnInvalidElectionIsAnError(t *testing.T) {
	e := election("me")
	e.LeaseDuration, e.RenewDeadline = time.Second, time.Minute
	if err := loop.Elected(loop.ClientsFor(fake.NewClientset()), e, loop.Func(untilDone)).Run(t.Context()); err == nil {
		t.Error("a deadline longer than the lease was accepted")
	}
}
