package millracetest_test

import (
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"
)

// usable starts a cluster and asks it something.
func usable(b *testing.B) *millrace.Cluster {
	b.Helper()
	c, err := millrace.Start(b.Context(), millrace.Options{Controllers: []string{}, NoScheduler: true})
	if err != nil {
		b.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := kube.CoreV1().Namespaces().Get(b.Context(), "default", metav1.GetOptions{}); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkCluster is a cluster from nothing to its first answer, and to its end.
func BenchmarkCluster(b *testing.B) {
	var starting, stopping time.Duration
	for b.Loop() {
		began := time.Now()
		c := usable(b)
		ready := time.Now()
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
		starting += ready.Sub(began)
		stopping += time.Since(ready)
	}
	b.ReportMetric(float64(starting.Microseconds())/1000/float64(b.N), "ms/start")
	b.ReportMetric(float64(stopping.Microseconds())/1000/float64(b.N), "ms/stop")
}

// BenchmarkAnotherCluster is the memory that is alive for each cluster beyond the first.
func BenchmarkAnotherCluster(b *testing.B) {
	const many = 20
	for range b.N {
		all := []*millrace.Cluster{usable(b)}
		before := alive()
		for range many {
			all = append(all, usable(b))
		}
		b.ReportMetric(float64(alive()-before)/many/(1<<20), "MiB/cluster")
		for _, c := range all {
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
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
