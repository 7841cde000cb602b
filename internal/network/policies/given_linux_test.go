package policies

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/network/pods"
)

// plugin is a Given with the addresses of pods as a plugin would have given them.
type plugin struct {
	owners   map[netip.Addr]pods.Owner
	released func(known map[netip.Addr]bool) error
}

func (p *plugin) Owners() (map[netip.Addr]pods.Owner, error) { return p.owners, nil }
func (p *plugin) Release(known map[netip.Addr]bool) error    { return p.released(known) }
func (p *plugin) Watch(ctx context.Context, f func()) error  { f(); <-ctx.Done(); return nil }

// ownedBy returns what a plugin has given to one of the stage's pods.
func ownedBy(name, uid string) map[netip.Addr]pods.Owner {
	owner := pods.Owner{Namespace: "ns", Name: name, UID: uid}
	return map[netip.Addr]pods.Owner{netip.MustParseAddr(address(name)): owner, netip.MustParseAddr(address6(name)): owner}
}

func TestAPodIsIsolatedBeforeItsStatusIsReported(t *testing.T) {
	s := newStage(t)
	s.stop() // it knows of no plugin, and would write other tables
	client := s.kube.CoreV1().Pods("ns")
	p, err := client.Get(t.Context(), "a", metav1.GetOptions{})
	s.must(nil, err)
	p.UID, p.Status = "uid", corev1.PodStatus{Phase: corev1.PodPending} // its postStart hook runs
	s.must(client.Update(t.Context(), p, metav1.UpdateOptions{}))
	s.apply("deny", networkingv1.NetworkPolicySpec{PodSelector: *selects("app", "a")})
	released := make(chan []netip.Addr, 100)
	s.run(&plugin{owners: ownedBy("a", "uid"), released: func(known map[netip.Addr]bool) error {
		select {
		case released <- slices.SortedFunc(maps.Keys(known), netip.Addr.Compare):
		default:
		}
		return nil
	}})
	all := <-released
	if len(all) != 2 || all[0].String() != address("a") {
		t.Errorf("released are %v", all)
	}
	for _, to := range []string{address("a"), address6("a")} {
		if s.reaches(s.pods["b"], to, 80) {
			t.Errorf("%s was released before the tables had it", to)
		}
	}
}

func TestWhoseAddressIsIt(t *testing.T) {
	ours, old := &pod{namespace: "ns", name: "a", node: "here", uid: "uid"}, &pod{namespace: "ns", name: "a", node: "here", uid: "old"}
	ended := &pod{namespace: "ns", name: "a", node: "here", uid: "uid"}
	liar := &pod{namespace: "other", name: "x", node: "there", uid: "x", addresses: []netip.Addr{netip.MustParseAddr(address("a")), netip.MustParseAddr("10.9.0.1")}}
	for name, test := range map[string]struct {
		found *pod
		known int
	}{
		"a pod without a status": {ours, 2}, "a pod that has ended": {ended, 2}, "a static pod's mirror": {&pod{namespace: "ns", name: "a", node: "here"}, 2}, "an earlier pod of the name": {old, 0}, "none": {nil, 0},
		"a pod of another node":       {&pod{namespace: "ns", name: "a", node: "there", uid: "uid"}, 0},
		"a pod of the node's network": {&pod{namespace: "ns", name: "a", node: "here", uid: "uid", hostNetwork: true}, 0},
	} {
		w := &clusterState{pods: map[string][]*pod{"other": {liar}}}
		known := w.give("here", ownedBy("a", "uid"), func(string, string) *pod { return test.found })
		if len(known) != test.known || len(w.pods["ns"]) != test.known/2 {
			t.Errorf("%s: %v are known, of %v", name, known, w.pods["ns"])
		}
		if have := w.pods["other"][0].addresses; len(have) != 1 || have[0].String() != "10.9.0.1" {
			t.Errorf("%s: a pod of another node has %v", name, have)
		}
	}
	if len(liar.addresses) != 2 {
		t.Error("what informers share was changed")
	}
}
