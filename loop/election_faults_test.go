package loop_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/loop"
)

func TestOneOfTwoLeadsAfterAnOutageAndNeverBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var out atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return out.Load(), nil, errors.New("no network")
		})
		var leading, terms atomic.Int32
		work := loop.Func(func(ctx context.Context) error {
			terms.Add(1)
			if leading.Add(1) > 1 {
				t.Error("two lead at a time")
			}
			<-ctx.Done()
			leading.Add(-1)
			return nil
		})
		process := func(name string) loop.Runner { // restarted whenever it ends
			return loop.Func(func(ctx context.Context) error {
				for ctx.Err() == nil {
					if err := loop.Elected(loop.ClientsFor(kube), election(name), work).Run(ctx); err != nil && !errors.Is(err, loop.ErrLeadershipLost) {
						return err
					}
				}
				return nil
			})
		}
		stopFirst, stopSecond := background(t, process("first")), background(t, process("second"))
		for _, lasts := range []time.Duration{5 * time.Second, 12 * time.Second, time.Hour} {
			time.Sleep(time.Minute)
			out.Store(true)
			time.Sleep(lasts)
			if lasts == time.Hour && leading.Load() != 0 {
				t.Error("one leads that cannot renew")
			}
			out.Store(false)
			time.Sleep(time.Minute)
			if n := leading.Load(); n != 1 {
				t.Errorf("%d lead after an outage of %v", n, lasts)
			}
		}
		if err := errors.Join(stopFirst(), stopSecond()); err != nil {
			t.Error(err)
		}
		if terms.Load() < 2 {
			t.Error("an outage of an hour ended no term")
		}
	})
}

func TestALeaderWithAWrongClockKeepsItsLease(t *testing.T) {
	for _, skew := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			kube := fake.NewClientset()
			leases := kube.CoordinationV1().Leases("kube-system")
			holder, seconds := "other", int32(15)
			lease := &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "mill", Namespace: "kube-system"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
			}
			if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			renew := func() {
				now := metav1.NewMicroTime(time.Now().Add(skew))
				lease.Spec.RenewTime = &now
				if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			renew()
			var leads atomic.Bool
			stop := background(t, loop.Elected(loop.ClientsFor(kube), election("me"), loop.Func(func(ctx context.Context) error {
				leads.Store(true)
				<-ctx.Done()
				return nil
			})))
			for range 30 {
				time.Sleep(10 * time.Second)
				renew()
				if leads.Load() {
					t.Fatalf("a leader whose clock is %v off lost its lease although it renewed it", skew)
				}
			}
			time.Sleep(time.Minute)
			if !leads.Load() {
				t.Errorf("nobody took over from a leader whose clock was %v off and that has gone", skew)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
