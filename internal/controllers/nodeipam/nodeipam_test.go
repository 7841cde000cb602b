package nodeipam

import (
	"context"
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/internal/meter"
	"github.com/millrace/millrace/loop"
)

func allocate(t *testing.T, o Options, f func(kube *fake.Clientset, ranges func(node string) []string)) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		clients := loop.ClientsFor(kube)
		r, err := New(clients, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, r) }()
		synctest.Wait()
		f(kube, func(node string) []string {
			synctest.Wait()
			n, err := kube.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return n.Spec.PodCIDRs
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func addNode(t *testing.T, kube *fake.Clientset, name string, ranges ...string) {
	t.Helper()
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestEachNodeGetsARangeOfItsOwn(t *testing.T) {
	o := Options{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10::/56")}}
	allocate(t, o, func(kube *fake.Clientset, ranges func(string) []string) {
		addNode(t, kube, "kept", "10.244.1.0/24", "fd00:10::/64")
		addNode(t, kube, "a")
		if got := ranges("a"); len(got) != 2 || got[0] != "10.244.0.0/24" || got[1] != "fd00:10:0:1::/64" {
			t.Errorf("the first has %v", got)
		}
		addNode(t, kube, "b")
		if got := ranges("b"); len(got) != 2 || got[0] != "10.244.2.0/24" || got[1] != "fd00:10:0:2::/64" {
			t.Errorf("the second has %v", got)
		}
		if got := ranges("kept"); got[0] != "10.244.1.0/24" {
			t.Errorf("the one that had a range has %v", got)
		}
	})
}

func TestARangeIsUsedAgainWhenItsNodeIsDeleted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	o := Options{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/23")}, Metrics: NewMetrics(meter.New(metrics))}
	allocate(t, o, func(kube *fake.Clientset, ranges func(string) []string) {
		for _, name := range []string{"a", "b", "c"} {
			addNode(t, kube, name)
			ranges(name)
		}
		if got := ranges("c"); len(got) != 0 {
			t.Errorf("with two ranges, the third node has %v", got)
		}
		if err := kube.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := ranges("c"); len(got) != 1 || got[0] != "10.244.0.0/24" {
			t.Errorf("when the first had gone, the third has %v", got)
		}
		const prefix, from = "node_ipam_controller_", " 10.244.0.0/23"
		want := map[string]float64{
			prefix + "cidrset_cidrs_allocations_total" + from: 3, prefix + "cidrset_cidrs_releases_total" + from: 1,
			prefix + "cidrset_allocation_tries_per_request" + from: 4, prefix + "cidrset_allocation_tries_per_request" + from + " n": 3,
			prefix + "cidrset_usage_cidrs" + from: 1, prefix + "cirdset_max_cidrs" + from: 2,
		}
		if got := looptest.Measured(t, metrics); !maps.Equal(got, want) {
			t.Errorf("ranges are counted as %v", got)
		}
	})
}

func TestNoNodeGetsARangeThatOverlapsWithAnother(t *testing.T) {
	o := Options{
		ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, MaskSize4: 16,
		Taken: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/15"), netip.MustParsePrefix("10.2.7.0/24")},
	}
	allocate(t, o, func(kube *fake.Clientset, ranges func(string) []string) {
		addNode(t, kube, "a")
		if got := ranges("a"); len(got) != 1 || got[0] != "10.3.0.0/16" {
			t.Errorf("it has %v", got)
		}
	})
}

func TestRangesThatNobodyCanCountNeedNoTime(t *testing.T) {
	prefix := netip.MustParsePrefix
	for name, c := range map[string]struct {
		of     pool
		used   []string
		want   string
		looked int
	}{
		"nothing is used":             {pool{prefix("fd00::/8"), 64}, nil, "fd00::/64", 1},
		"a wide range is used":        {pool{prefix("fd00::/8"), 64}, []string{"fd00::/9"}, "fd80::/64", 2},
		"a node has everything":       {pool{prefix("fd00::/8"), 64}, []string{"fd00::/8"}, "", 1},
		"a node has more":             {pool{prefix("fd00::/8"), 64}, []string{"::/0"}, "", 1},
		"small ranges in one":         {pool{prefix("10.0.0.0/8"), 24}, []string{"10.0.0.7/32", "10.0.0.9/32", "10.0.1.0/24"}, "10.0.2.0/24", 3},
		"ranges within others":        {pool{prefix("10.0.0.0/8"), 24}, []string{"10.0.0.0/23", "10.0.0.0/24", "10.0.1.0/24", "10.0.3.0/24"}, "10.0.2.0/24", 2},
		"the last one is left":        {pool{prefix("10.0.0.0/30"), 32}, []string{"10.0.0.0/31", "10.0.0.2/32"}, "10.0.0.3/32", 3},
		"the end of all is used":      {pool{prefix("255.255.255.254/31"), 32}, []string{"255.255.255.254/31"}, "", 1},
		"ranges of others are passed": {pool{prefix("10.0.0.0/8"), 24}, []string{"9.0.0.0/8", "11.0.0.0/8", "fd00::/8"}, "10.0.0.0/24", 1},
	} {
		used := map[netip.Prefix]bool{}
		for _, text := range c.used {
			used[prefix(text)] = true
		}
		free, looked, ok := c.of.free(used)
		if ok != (c.want != "") || ok && free != prefix(c.want) || looked != c.looked {
			t.Errorf("%s: %v (%t) after %d looks, expected %q after %d", name, free, ok, looked, c.want, c.looked)
		}
	}
}
