package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/legacytoken"
	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/loop"
)

// loopFlagsOf returns the settings of loops after they have parsed a command line.
func loopFlagsOf(t *testing.T, args ...string) *loopFlags {
	t.Helper()
	f, fl := &loopFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestConcurrencyFlagsReachTheirLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]bool{}
		var mu sync.Mutex // guards asked
		kube := fake.NewClientset()
		kube.Resources = []*metav1.APIResourceList{{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true}, {Name: "devicetaintrules", Kind: "DeviceTaintRule"},
		}}}
		clients := loop.ClientsFor(kube)
		clients.Metadata = metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
		clients.Workers = func(loop string) int {
			mu.Lock()
			defer mu.Unlock()
			asked[loop] = true
			return 0
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all []loop.Runner
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range controllers.All(controllers.Options{Making: legacytoken.Making{Key: key}}) {
			for _, c := range concurrency {
				if c.loops[0] == e.Name {
					r, err := e.Make(clients)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, r)
				}
			}
		}
		ended := make(chan error)
		go func() { ended <- loop.Run(ctx, clients, all...) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for i, c := range concurrency {
			for _, name := range c.loops {
				if !asked[name] {
					t.Errorf("--%s names the loop %s, which does not exist", c.flag, name)
				}
				f := loopFlagsOf(t, fmt.Sprintf("--%s=%d", c.flag, 70+i))
				if n := f.workersOf(name); n != 70+i {
					t.Errorf("--%s: the loop %s has %d workers", c.flag, name, n)
				}
			}
		}
	})
}

func TestFlagsOfLoopsReachTheirOptions(t *testing.T) {
	o, err := loopFlagsOf(t, "--horizontal-pod-autoscaler-sync-period=3s", "--horizontal-pod-autoscaler-downscale-stabilization=4s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=5s", "--horizontal-pod-autoscaler-initial-readiness-delay=6s",
		"--horizontal-pod-autoscaler-tolerance=0.7", "--enable-dynamic-provisioning=false", "--disable-force-detach-on-timeout",
		"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8", "--service-cluster-ip-range=10.96.0.0/16", "--node-cidr-mask-size=22").options()
	if err != nil {
		t.Fatal(err)
	}
	want := podautoscaler.Options{
		SyncPeriod: 3 * time.Second, DownscaleStabilization: 4 * time.Second, CPUInitialization: 5 * time.Second, InitialReadiness: 6 * time.Second, Tolerance: 0.7,
	}
	if o.Autoscaling != want {
		t.Errorf("autoscaling %+v", o.Autoscaling)
	}
	if !o.Claiming.NoProvisioning || !o.Attaching.NeverForce {
		t.Errorf("volumes %+v, %+v", o.Claiming, o.Attaching)
	}
	if r := o.Ranges; r.MaskSize4 != 22 || len(r.ClusterCIDRs) != 1 || len(r.Taken) != 1 || r.Taken[0].String() != "10.96.0.0/16" {
		t.Errorf("ranges %+v", r)
	}
	if _, err := loopFlagsOf(t, "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8,fd00::/48", "--node-cidr-mask-size=22").options(); err == nil {
		t.Error("one mask size was accepted for two families")
	}
	names, _ := loop.Names(loopFlagsOf(t, "--enable-garbage-collector=false").entries(controllers.Options{}))
	if slices.Contains(names, "garbage-collector-controller") {
		t.Error("the garbage collector runs though it is turned off")
	}
}

func TestAnExplicitZeroIsNotTheDefault(t *testing.T) {
	o, err := loopFlagsOf(t, "--node-eviction-rate=0", "--terminated-pod-gc-threshold=0", "--node-monitor-grace-period=5s",
		"--horizontal-pod-autoscaler-downscale-stabilization=0", "--horizontal-pod-autoscaler-tolerance=0").options()
	if err != nil || o.Nodes.Rate >= 0 || o.Pods.Threshold >= 0 || o.Nodes.Grace != 5*time.Second || o.Nodes.ReducedRate != 0.01 || o.Nodes.LargeZone != 50 {
		t.Errorf("%+v, %v", o, err)
	}
	if a := o.Autoscaling; a.DownscaleStabilization > time.Nanosecond || a.Tolerance > 1e-300 || a.SyncPeriod != 15*time.Second {
		t.Errorf("%+v", a)
	}
}
