package clients_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// benchCluster starts an API server with a log on the disk and without loops, reached over TLS as from outside.
func benchCluster(b *testing.B) (*rest.Config, *kubernetes.Clientset) {
	b.Helper()
	c, err := millrace.Start(b.Context(), millrace.Options{Data: b.TempDir(), Controllers: []string{}, NoScheduler: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	config := c.Config()
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return config, clients
}

// benchPod takes about 6 KB as JSON.
func benchPod(name string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web", "tier": "front"}, Annotations: map[string]string{"note": strings.Repeat("n", 300)}},
	}
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example/app:1", Command: []string{"/app", "--serve"}}
		for j := range 12 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "some value of it"})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

const writers = 32 // for each of two processors: 64 concurrent writers

func BenchmarkCreatePods(b *testing.B) {
	_, k := benchCluster(b)
	var n atomic.Int64
	b.SetParallelism(writers)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := k.CoreV1().Pods("default").Create(context.Background(), benchPod(fmt.Sprintf("p%d", n.Add(1))), metav1.CreateOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkRenewLeases(b *testing.B) {
	_, k := benchCluster(b)
	var n atomic.Int64
	b.SetParallelism(writers)
	b.RunParallel(func(pb *testing.PB) {
		leases := k.CoordinationV1().Leases("default")
		l, err := leases.Create(context.Background(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("l%d", n.Add(1))}}, metav1.CreateOptions{})
		if err != nil {
			b.Error(err)
			return
		}
		for pb.Next() {
			now := metav1.NowMicro()
			l.Spec.RenewTime = &now
			if l, err = leases.Update(context.Background(), l, metav1.UpdateOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkPatchPods(b *testing.B) {
	_, k := benchCluster(b)
	var n atomic.Int64
	b.SetParallelism(writers)
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprintf("p%d", n.Add(1))
		if _, err := k.CoreV1().Pods("default").Create(context.Background(), benchPod(name), metav1.CreateOptions{}); err != nil {
			b.Error(err)
			return
		}
		for i := 0; pb.Next(); i++ {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i)
			if _, err := k.CoreV1().Pods("default").Patch(context.Background(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkGetPod(b *testing.B) {
	_, k := benchCluster(b)
	if _, err := k.CoreV1().Pods("default").Create(b.Context(), benchPod("p"), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(writers)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := k.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods/p").DoRaw(context.Background()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkListPods reads 10,000 pods of 6 KB, all bytes of them.
func BenchmarkListPods(b *testing.B) {
	config, k := benchCluster(b)
	for i := range 10_000 {
		if _, err := k.CoreV1().Pods("default").Create(b.Context(), benchPod(fmt.Sprintf("p%d", i)), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, encoding := range []string{"identity", "gzip"} {
		b.Run(encoding, func(b *testing.B) {
			transport, err := rest.TransportFor(config)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				req, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, config.Host+"/api/v1/pods", nil)
				req.Header.Set("Accept", "application/json")
				req.Header.Set("Accept-Encoding", encoding)
				res, err := transport.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				n, _ := io.Copy(io.Discard, res.Body)
				res.Body.Close()
				b.SetBytes(n)
			}
		})
	}
}

// BenchmarkFanOut writes config maps that 1,000 watchers read, over TLS and HTTP/2, from the same process. The result
// is the cost of a delivery for both ends together.
func BenchmarkFanOut(b *testing.B) {
	for _, size := range []int{200, 1 << 10, 6 << 10} {
		for _, encoding := range []string{"identity", "gzip"} {
			b.Run(fmt.Sprintf("%dB/%s", size, encoding), func(b *testing.B) { fanOut(b, size, encoding) })
		}
	}
}

const watchers = 1000

func fanOut(b *testing.B, size int, encoding string) {
	config, k := benchCluster(b)
	var delivered sync.WaitGroup
	var readers sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	defer readers.Wait()
	defer cancel()
	for range watchers {
		body := openWatch(ctx, b, config, encoding)
		readers.Go(func() { countFrames(body, &delivered) })
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Data: map[string]string{}}
	if _, err := k.CoreV1().ConfigMaps("default").Create(b.Context(), m, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	text := make([]byte, size)
	for b.Loop() {
		for i := range text {
			text[i] = "abcdefghijklmnopqrstuvwxyz234567"[rand.IntN(32)]
		}
		m.Data["text"] = string(text)
		delivered.Add(watchers)
		if _, err := k.CoreV1().ConfigMaps("default").Update(b.Context(), m, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		delivered.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/watchers, "ns/delivery")
}

func openWatch(ctx context.Context, b *testing.B, config *rest.Config, encoding string) io.Reader {
	b.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dm", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", encoding)
	res, err := transport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	if encoding != "gzip" {
		return res.Body
	}
	z, err := gzip.NewReader(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	return z
}

// countFrames reads a watch. The first frame is not counted: it is the creation.
func countFrames(r io.Reader, delivered *sync.WaitGroup) {
	in := bufio.NewReader(r)
	for first := true; ; {
		line, err := in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		if !first {
			delivered.Done()
		}
		first = false
	}
}
