package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// These tests follow a server over HTTP, in every format and through every kind of client, while connections are cut.

func TestTheCacheEqualsARealServersState(t *testing.T) { onKubeAPIServer(t, everyWay) }

func TestTheCacheEqualsTheStateOfAServerThatDoesNotStreamLists(t *testing.T) {
	onKubeAPIServer(t, everyWay, "--feature-gates", "WatchList=false")
}

func everyWay(t *testing.T, config *rest.Config) {
	for _, pages := range []bool{false, true} {
		for _, format := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			over := rest.CopyConfig(config)
			over.ContentType, over.AcceptContentTypes = format, format+",application/json"
			t.Run(fmt.Sprintf("pages=%v/%s/typed", pages, format), func(t *testing.T) {
				churn(t, config, over, pages, func(c *rest.Config, namespace string) informer.Source[*corev1.ConfigMap] {
					return informer.For(kubernetes.NewForConfigOrDie(c).CoreV1().ConfigMaps(namespace))
				})
			})
		}
		t.Run(fmt.Sprintf("pages=%v/dynamic", pages), func(t *testing.T) {
			churn(t, config, config, pages, func(c *rest.Config, namespace string) informer.Source[*unstructured.Unstructured] {
				return informer.Dynamic(dynamic.NewForConfigOrDie(c), configMaps, namespace)
			})
		})
		t.Run(fmt.Sprintf("pages=%v/metadata", pages), func(t *testing.T) {
			churn(t, config, config, pages, func(c *rest.Config, namespace string) informer.Source[*metav1.PartialObjectMetadata] {
				return informer.Metadata(metadata.NewForConfigOrDie(c), configMaps, namespace)
			})
		})
	}
}

// churn writes at random while an informer follows over connections that are cut at random. At the end it compares the
// cache with the server.
func churn[T informer.Object](t *testing.T, config, over *rest.Config, pages bool, makeSource func(*rest.Config, string) informer.Source[T]) {
	writer := *rest.CopyConfig(config)
	writer.QPS = -1
	clientset := kubernetes.NewForConfigOrDie(&writer)
	namespace, err := clientset.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "churn-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maps := clientset.CoreV1().ConfigMaps(namespace.Name)
	for i := range 7 {
		if _, err := maps.Create(t.Context(), configMap(i, "before"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	connections := &cutter{}
	faulty := rest.CopyConfig(over)
	faulty.Dial, faulty.QPS = connections.dial, -1
	objects := informer.New(makeSource(faulty, namespace.Name), informer.Options[T]{DisableStreaming: pages, PageSize: 3, DropManagedFields: true,
		Backoff: informer.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}})
	heard := &history{known: map[informer.Key]string{}}
	reg := objects.Handle(follow[T](heard))
	ctx, cancel := context.WithCancel(t.Context())
	ended := runInBackground(ctx, objects)
	if err := errors.Join(objects.Synced(t.Context()), reg.Synced(t.Context())); err != nil {
		t.Fatal(err)
	}
	last := scribbleMaps(t, clientset, namespace.Name, connections.cut)
	if err := objects.WaitFor(t.Context(), last); err != nil {
		t.Error(err)
	}
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[informer.Key]string{}
	for _, m := range list.Items {
		want[informer.KeyOf(&m)] = m.ResourceVersion
	}
	got := map[informer.Key]string{}
	for key, object := range objects.All() {
		got[key] = object.GetResourceVersion()
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the cache has %v, the server %v", got, want)
	}
	eventually(t, "the handler", func() error { return heard.equals(want) })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func configMap(i int, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i)}, Data: map[string]string{"content": content}}
}

// scribbleMaps writes at random and returns the version of the last write that left an object.
func scribbleMaps(t *testing.T, clientset kubernetes.Interface, namespace string, cut func()) (last string) {
	t.Helper()
	maps := clientset.CoreV1().ConfigMaps(namespace)
	random := rand.New(rand.NewPCG(randomly.Seed(t), 0))
	for n := range 60 {
		i := random.IntN(12)
		written, err := maps.Create(t.Context(), configMap(i, fmt.Sprint(n)), metav1.CreateOptions{})
		switch {
		case err == nil:
		case random.IntN(3) == 0 && n < 59:
			err = maps.Delete(t.Context(), fmt.Sprint("map-", i), metav1.DeleteOptions{})
		default:
			written, err = maps.Update(t.Context(), configMap(i, fmt.Sprint(n)), metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if written.GetResourceVersion() != "" {
			last = written.ResourceVersion
		}
		if random.IntN(6) == 0 {
			cut()
		}
	}
	return last
}

// history records what a handler received, and reports what violates a guarantee.
type history struct {
	mu     sync.Mutex
	known  map[informer.Key]string // guarded by mu
	faults []string                // guarded by mu
}

func follow[T informer.Object](h *history) informer.Handler[T] {
	note := func(what string, object T, old, now string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		key := informer.KeyOf(object)
		if h.known[key] != old {
			h.faults = append(h.faults, fmt.Sprintf("%s of %s: %q was told last, not %q", what, key, h.known[key], old))
		}
		if h.known[key] = now; now == "" {
			delete(h.known, key)
		}
	}
	return informer.Handler[T]{
		Added:   func(o T, _ bool) { note("Added", o, "", o.GetResourceVersion()) },
		Updated: func(old, new T) { note("Updated", new, old.GetResourceVersion(), new.GetResourceVersion()) },
		Deleted: func(o T, _ bool) { note("Deleted", o, h.told(informer.KeyOf(o)), "") },
	}
}

func (h *history) told(key informer.Key) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[key]
}

func (h *history) equals(want map[informer.Key]string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.faults) > 0 || fmt.Sprint(h.known) != fmt.Sprint(want) {
		return fmt.Errorf("it knows %v, want %v; %q", h.known, want, h.faults)
	}
	return nil
}

func runInBackground[T any](ctx context.Context, s *informer.Shared[T]) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return ended
}
