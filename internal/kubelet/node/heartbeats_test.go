package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestAFailedStatusWriteIsRepeatedWithTheNextHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var away, short atomic.Bool
		kube.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				return true, nil, errors.New("the server is away")
			}
			return false, nil, nil
		})
		changed := make(chan struct{}, 1)
		h := NewHeartbeats(Options{Kube: kube, Count: 1, Changed: changed, Facts: func(int) Facts {
			return Facts{Name: "n", Pressure: map[corev1.NodeConditionType]bool{corev1.NodeMemoryPressure: short.Load()}}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		pressed := func() bool {
			n, err := kube.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeMemoryPressure {
					return c.Status == corev1.ConditionTrue
				}
			}
			return false
		}
		time.Sleep(time.Second)
		away.Store(true)
		short.Store(true)
		changed <- struct{}{}
		time.Sleep(25 * time.Second)
		away.Store(false)
		if pressed() {
			t.Fatal("it was written while the server was away")
		}
		time.Sleep(11 * time.Second)
		if !pressed() {
			t.Error("it is not written when the server is back")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestANodeThatWasMarkedUnreachableReportsThatItIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var away atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				return true, nil, errors.New("the server is away")
			}
			return false, nil, nil
		})
		h := NewHeartbeats(Options{Kube: kube, Count: 1, Facts: func(int) Facts { return Facts{Name: "n"} }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(time.Second)
		away.Store(true)
		time.Sleep(45 * time.Second)
		n, err := kube.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
		if _, err := kube.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		away.Store(false)
		time.Sleep(11 * time.Second)
		if n, err = kube.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range n.Status.Conditions {
			if c.Status == corev1.ConditionUnknown {
				t.Errorf("of a node that is back the condition %s is still unknown", c.Type)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestARenewalThatFailsIsRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		var away atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if away.Load() {
				return true, nil, errors.New("the server is away")
			}
			return false, nil, nil
		})
		h := NewHeartbeats(Options{Kube: kube, Count: 1, LeaseEvery: 36 * time.Second, Facts: func(int) Facts { return Facts{Name: "n"} }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		age := func() time.Duration {
			l, err := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "n", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return time.Since(l.Spec.RenewTime.Time)
		}
		time.Sleep(100 * time.Second)
		away.Store(true)
		time.Sleep(20 * time.Second) // the renewal after 108 s fails
		away.Store(false)
		time.Sleep(2 * time.Second)
		if a := age(); a > 2*time.Second {
			t.Errorf("the lease is %v old two seconds after the server is back", a)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestANodeThatIsNotToBeMadeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		h := NewHeartbeats(Options{Kube: kube, Count: 1, NoRegister: true, Facts: func(int) Facts { return Facts{Name: "n"} }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep(time.Minute)
		if list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("there are %d nodes, %v", len(list.Items), err)
		}
		if _, err := kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		n, err := kube.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{})
		if err != nil || len(n.Status.Conditions) == 0 {
			t.Errorf("the node that somebody else has made has the conditions %v, %v", n.Status.Conditions, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The leases of many nodes are renewed a few at a time, each of them as often as before.
func TestManyLeasesAreRenewedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes, rounds = 200, 4
		kube := fake.NewClientset()
		var mu sync.Mutex
		renewals, times := map[string]int{}, map[time.Time]bool{}
		kube.PrependReactor("update", "leases", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			renewals[a.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease).Name]++
			times[time.Now()] = true
			return false, nil, nil
		})
		h := NewHeartbeats(Options{Kube: kube, Count: nodes, LeaseEvery: 10 * time.Second, Facts: func(i int) Facts { return Facts{Name: fmt.Sprint("n", i)} }})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		time.Sleep((rounds + 1) * 10 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if len(renewals) != nodes {
			t.Errorf("the leases of %d nodes were renewed", len(renewals))
		}
		for name, n := range renewals {
			if n < rounds-1 || n > rounds+1 {
				t.Errorf("the lease of %s was renewed %d times", name, n)
			}
		}
		if most := (rounds + 1) * 50; len(times) > most {
			t.Errorf("leases were renewed at %d different times, want no more than %d", len(times), most)
		}
	})
}
