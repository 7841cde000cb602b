package planes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/cputime"
)

var kind = schema.GroupVersionResource{Group: "planes.millrace.dev", Version: "v1alpha1", Resource: "controlplanes"}

type host struct {
	b *testing.B
	*millrace.Cluster
	kube   kubernetes.Interface
	planes dynamic.ResourceInterface
}

func start(b *testing.B, data string) *host {
	b.Helper()
	c, err := millrace.Start(b.Context(), millrace.Options{Data: data, Planes: true, History: millrace.HistoryOptions{Age: time.Hour, Bytes: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	config := c.InProcess()
	return &host{b, c, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config).Resource(kind)}
}

// make makes a plane.
func (h *host) make(name string, spec map[string]any) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": "ControlPlane", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
	if _, err := h.planes.Create(h.b.Context(), o, metav1.CreateOptions{}); err != nil {
		h.b.Fatal(err)
	}
}

// await waits until a plane has a phase.
func (h *host) await(name, phase string) {
	for {
		o, err := h.planes.Get(h.b.Context(), name, metav1.GetOptions{})
		if err != nil {
			h.b.Fatal(err)
		}
		if is, _, _ := unstructured.NestedString(o.Object, "status", "phase"); is == phase {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// client returns a client for the administrator of a plane, over the network.
func (h *host) client(name string) (*http.Client, *rest.Config) {
	for {
		s, err := h.kube.CoreV1().Secrets("millrace-planes").Get(h.b.Context(), name+"-kubeconfig", metav1.GetOptions{})
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["value"])
		if err != nil {
			h.b.Fatal(err)
		}
		config.QPS = -1
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			h.b.Fatal(err)
		}
		return client, config
	}
}

// get sends a request to a plane.
func (h *host) get(client *http.Client, url string) {
	answer, err := client.Get(url)
	if err != nil {
		h.b.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		h.b.Fatalf("%s: %s", url, answer.Status)
	}
}

// sleep puts a plane to sleep.
func (h *host) sleep(name string) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"planes.millrace.dev/sleep":%q}}}`, time.Now().Format(time.RFC3339Nano))
	if _, err := h.planes.Patch(h.b.Context(), name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		h.b.Fatal(err)
	}
	h.await(name, "Asleep")
}

// median reports the median and the largest of some times.
func median(b *testing.B, all []time.Duration, unit string) {
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/"+unit)
	b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, "ms/"+unit+"-max")
}

// used returns what the heap has, and what the process has from the system.
func used() (heap, system uint64) {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, m.Sys - m.HeapReleased
}

func number(b *testing.B, name string, otherwise int) int {
	n := otherwise
	if text := os.Getenv(name); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// BenchmarkLives makes planes, lets them sleep, wakes and deletes them. PLANES says how many.
func BenchmarkLives(b *testing.B) {
	n := number(b, "PLANES", 50)
	for b.Loop() {
		lives(b, n)
	}
}

func lives(b *testing.B, n int) {
	data := b.TempDir()
	h := start(b, data)
	heap0, sys0 := used()
	goroutines0 := runtime.NumGoroutine()
	var made, woken []time.Duration
	begin := time.Now()
	for i := range n {
		name := fmt.Sprint("plane-", i)
		from := time.Now()
		h.make(name, nil)
		client, config := h.client(name)
		h.get(client, config.Host+"/api/v1/namespaces/default")
		made = append(made, time.Since(from))
		net.CloseIdleConnectionsFor(client.Transport)
	}
	b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "created/s")
	median(b, made, "create")
	time.Sleep(5 * time.Second)
	heap, sys := used()
	b.ReportMetric(float64(heap-heap0)/float64(n)/1024, "KiB/awake-heap")
	b.ReportMetric(float64(sys-sys0)/float64(n)/1024, "KiB/awake-system")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines0)/float64(n), "goroutines/awake")
	for i := range n {
		h.sleep(fmt.Sprint("plane-", i))
	}
	time.Sleep(2 * time.Second)
	heap, _ = used()
	b.ReportMetric(float64(int64(heap)-int64(heap0))/float64(n)/1024, "KiB/asleep-heap")
	for i := range min(n, 20) {
		client, config := h.client(fmt.Sprint("plane-", i))
		from := time.Now()
		h.get(client, config.Host+"/api/v1/namespaces/default")
		woken = append(woken, time.Since(from))
		net.CloseIdleConnectionsFor(client.Transport)
	}
	median(b, woken, "wake")
	begin = time.Now()
	var deleting sync.WaitGroup
	for i := range n {
		deleting.Go(func() { h.delete(fmt.Sprint("plane-", i)) })
	}
	deleting.Wait()
	b.ReportMetric(time.Since(begin).Seconds()/float64(n)*1000, "ms/delete")
	time.Sleep(2 * time.Second)
	heap, _ = used()
	b.ReportMetric((float64(heap)-float64(heap0))/1024, "KiB-after")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines0), "goroutines-after")
	if left, err := os.ReadDir(filepath.Join(data, "planes")); err != nil || len(left) > 0 {
		b.Errorf("%d directories are left, %v", len(left), err)
	}
}

// BenchmarkAsleep makes planes and puts each to sleep before the next is made. What Go keeps of goroutines that have
// ended, which it uses again, is that of a few planes.
func BenchmarkAsleep(b *testing.B) {
	n := number(b, "PLANES", 50)
	for b.Loop() {
		h := start(b, b.TempDir())
		for i := range 5 { // of which something stays once
			h.make(fmt.Sprint("first-", i), nil)
			h.await(fmt.Sprint("first-", i), "Awake")
			h.sleep(fmt.Sprint("first-", i))
		}
		heap0, _ := used()
		for i := range n {
			h.make(fmt.Sprint("plane-", i), nil)
			h.await(fmt.Sprint("plane-", i), "Awake")
			h.sleep(fmt.Sprint("plane-", i))
		}
		time.Sleep(5 * time.Second)
		heap, _ := used()
		b.ReportMetric((float64(heap)-float64(heap0))/float64(n)/1024, "KiB/asleep")
		before := cputime.Process()
		time.Sleep(10 * time.Second)
		b.ReportMetric(float64((cputime.Process()-before).Milliseconds())/100, "%CPU")
	}
}

func (h *host) delete(name string) {
	if err := h.planes.Delete(h.b.Context(), name, metav1.DeleteOptions{}); err != nil {
		h.b.Error(err)
	}
	for {
		if _, err := h.planes.Get(h.b.Context(), name, metav1.GetOptions{}); err != nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// BenchmarkFork forks a plane with many objects of 6 KB. OBJECTS says how many.
func BenchmarkFork(b *testing.B) {
	objects := number(b, "OBJECTS", 10_000)
	for b.Loop() {
		fork(b, objects)
	}
}

func fork(b *testing.B, objects int) {
	h := start(b, b.TempDir())
	h.make("prod", nil)
	h.await("prod", "Awake")
	fill(b, kubernetes.NewForConfigOrDie(h.Plane("prod")), objects)
	var forked, woken []time.Duration
	heap0, _ := used()
	for i := range 10 {
		name := fmt.Sprint("fork-", i)
		from := time.Now()
		h.make(name, map[string]any{"from": map[string]any{"name": "prod"}, "paused": true})
		h.await(name, "Awake")
		woken = append(woken, time.Since(from))
		h.sleep(name)
		from = time.Now()
		client, config := h.client(name)
		h.get(client, config.Host+"/api/v1/namespaces/default")
		forked = append(forked, time.Since(from))
		h.sleep(name)
		net.CloseIdleConnectionsFor(client.Transport)
	}
	median(b, woken, "fork-and-start")
	median(b, forked, "wake")
	heap, _ := used()
	b.ReportMetric((float64(heap)-float64(heap0))/10/1024, "KiB/fork-asleep")
}

// fill makes config maps of 6 KB.
func fill(b *testing.B, kube kubernetes.Interface, objects int) {
	value := make([]byte, 6000)
	for i := range value {
		value[i] = 'a' + byte(i*7%26)
	}
	next := make(chan int)
	var writing sync.WaitGroup
	for range 64 {
		writing.Go(func() {
			for i := range next {
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}, Data: map[string]string{"value": string(value), "n": fmt.Sprint(i)}}
				if _, err := kube.CoreV1().ConfigMaps("default").Create(context.Background(), m, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range objects {
		next <- i
	}
	close(next)
	writing.Wait()
}
