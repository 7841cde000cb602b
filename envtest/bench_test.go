package envtest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/envtest"
)

func plural(kind string) string { return strings.ToLower(kind) + "s" }

// use starts an environment and makes a request, which a usable client needs.
func use(ctx context.Context, env *envtest.Environment) error {
	config, err := env.Start()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	return err
}

// BenchmarkStart is from nothing to the first answer; BenchmarkStop is the end of that.
func BenchmarkStart(b *testing.B) { startAndStop(b, b.StartTimer, b.StopTimer) }
func BenchmarkStop(b *testing.B)  { startAndStop(b, b.StopTimer, b.StartTimer) }

func startAndStop(b *testing.B, starting, stopping func()) {
	b.ReportAllocs()
	for range b.N {
		starting()
		env := &envtest.Environment{}
		if err := use(b.Context(), env); err != nil {
			b.Fatal(err)
		}
		stopping()
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClusters starts a hundred environments at once and uses each, reports what one takes in memory, and stops
// them.
func BenchmarkClusters(b *testing.B) {
	const many = 100
	for range b.N {
		all := make([]envtest.Environment, many)
		before := alive()
		var starting errgroup.Group
		for i := range all {
			starting.Go(func() error { return use(b.Context(), &all[i]) })
		}
		if err := starting.Wait(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric(float64(alive()-before)/many/(1<<20), "MiB/cluster")
		b.StartTimer()
		var stopping errgroup.Group
		for i := range all {
			stopping.Go(all[i].Stop)
		}
		if err := stopping.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// alive is the memory in use by objects and stacks.
func alive() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkInstall installs 54 definitions, until they are served.
func BenchmarkInstall(b *testing.B) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for i := range 54 {
		crds = append(crds, definition(fmt.Sprintf("Boat%d", i)))
	}
	for range b.N {
		b.StopTimer()
		env := &envtest.Environment{}
		if err := use(b.Context(), env); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: crds}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
