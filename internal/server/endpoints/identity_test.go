package endpoints_test

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/endpoints"
)

// identify starts an identity, and returns a function that ends it.
func (w *world) identify(host, address string) (end func()) {
	w.Helper()
	i, err := endpoints.NewIdentity(w.cluster.Config(), host, address, nil)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = i.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// identities are the leases of API servers, by the address of each.
func (w *world) identities() map[string]coordinationv1.Lease {
	w.Helper()
	all, err := w.kube.CoordinationV1().Leases("kube-system").List(w.Context(), metav1.ListOptions{LabelSelector: endpoints.IdentityLabel})
	if err != nil {
		w.Fatal(err)
	}
	out := map[string]coordinationv1.Lease{}
	for _, lease := range all.Items {
		out[lease.Annotations["kubernetes.io/peer-advertise-address"]] = lease
	}
	return out
}

// The name was read from a kube-apiserver on a host of that name.
func TestAServerShowsWhoItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.identify("vm", "10.1.0.1:6443")
		time.Sleep(time.Hour + time.Second)
		lease, ok := w.identities()["10.1.0.1:6443"]
		if !ok || lease.Name != "apiserver-wlv32tlttr4jl3gtroqexyxapa" || lease.Labels[endpoints.IdentityLabel] != "kube-apiserver" ||
			lease.Labels["kubernetes.io/hostname"] != "vm" || *lease.Spec.LeaseDurationSeconds != 3600 {
			t.Errorf("the lease is %+v", lease)
		}
		if age := time.Since(lease.Spec.RenewTime.Time); age > 10*time.Second {
			t.Errorf("it was renewed %v ago", age)
		}
		if end(); len(w.identities()) != 0 {
			t.Errorf("the server has ended, and its lease is still there")
		}
	})
}

func TestLeasesOfCrashedServersAreRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		old := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: "apiserver-crashed", Annotations: map[string]string{"kubernetes.io/peer-advertise-address": "crashed"},
			Labels: map[string]string{endpoints.IdentityLabel: "kube-apiserver"},
		}}
		old.Spec.RenewTime, old.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: time.Now()}, new(int32(3600))
		other := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Name: "another-kind", Annotations: map[string]string{"kubernetes.io/peer-advertise-address": "another"},
			Labels: map[string]string{endpoints.IdentityLabel: "another-server"},
		}}
		for _, lease := range []*coordinationv1.Lease{old, other} {
			if _, err := w.kube.CoordinationV1().Leases("kube-system").Create(w.Context(), lease, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		defer w.identify("vm", "10.1.0.1:6443")()
		time.Sleep(59 * time.Minute)
		if _, there := w.identities()["crashed"]; !there {
			t.Error("a lease was removed while it was valid")
		}
		time.Sleep(2 * time.Hour)
		all := w.identities()
		if _, there := all["crashed"]; there || len(all) != 2 {
			t.Errorf("there are the leases %v", all)
		}
	})
}

func TestALeaseThatAnotherServerOfTheHostHasTakenStays(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.identify("vm", "10.1.0.1:6443")
		time.Sleep(time.Second)
		second := w.identify("vm", "10.1.0.1:7443")
		time.Sleep(time.Second)
		first()
		if _, there := w.identities()["10.1.0.1:7443"]; !there {
			t.Error("the end of one server has removed the other's lease")
		}
		second()
	})
}
