package loop_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

// settings is a Go type of the test for ConfigMaps. The client treats it like any custom kind.
type settings struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data,omitempty"`
}

func (s *settings) DeepCopyObject() runtime.Object {
	same := &settings{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy()}
	if s.Data != nil {
		same.Data = map[string]string{}
		for k, v := range s.Data {
			same.Data[k] = v
		}
	}
	return same
}

var settingsKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// served calls f with clients of a real API server, in virtual time.
func served(t *testing.T, f func(t *testing.T, c *loop.Clients)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := loop.NewClients(millracetest.API(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		f(t, c)
	})
}

// program runs the clients and, on top of them, runners.
func program(c *loop.Clients, runners ...loop.Runner) loop.Runner {
	return loop.Func(func(ctx context.Context) error { return loop.Run(ctx, c, append(runners, loop.Func(untilDone))...) })
}

func TestAnyKindHasAClientAnInformerAndAWriter(t *testing.T) {
	served(t, func(t *testing.T, c *loop.Clients) {
		client, err := loop.ResourceFor[*settings](c, settingsKind, "configmaps")
		if err != nil {
			t.Fatal(err)
		}
		all := loop.Informer(c, client, loop.Selection{Labels: "mine"})
		writer := loop.NewWriter(client, all, "test")
		stop := background(t, program(c))
		defer func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}()
		ensure := func(value string) *settings {
			t.Helper()
			got, err := writer.Ensure(t.Context(), loop.Key{Namespace: "default", Name: "web"}, func(s *settings, _ bool) error {
				s.Labels, s.Data = map[string]string{"mine": ""}, map[string]string{"color": value}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return got
		}
		made := ensure("blue")
		changed := ensure("green")
		same := ensure("green")
		if made.UID == "" || changed.UID != made.UID || changed.ResourceVersion == made.ResourceVersion || same.ResourceVersion != changed.ResourceVersion {
			t.Errorf("created %v, changed %v, left %v", made.ResourceVersion, changed.ResourceVersion, same.ResourceVersion)
		}
		if got, ok := all.Get("default", "web"); !ok || got.Data["color"] != "green" {
			t.Errorf("the informer has %v", got)
		}
		applied := &settings{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Data: map[string]string{"size": "large"}}
		first, err := writer.Apply(t.Context(), applied)
		if err != nil || first.Data["size"] != "large" || first.Data["color"] != "green" {
			t.Fatalf("applied: %v, %v", first, err)
		}
	})
}

func TestAnyKindCanBeReadAsATree(t *testing.T) {
	served(t, func(t *testing.T, c *loop.Clients) {
		trees, err := loop.ResourceFor[*unstructured.Unstructured](c, settingsKind, "configmaps")
		if err != nil {
			t.Fatal(err)
		}
		all := loop.Informer(c, trees)
		stop := background(t, program(c))
		tree := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"namespace": "default", "name": "web"}, "data": map[string]any{"color": "blue"}}}
		made, err := trees.InNamespace("default").Create(t.Context(), tree, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got, ok := all.Get("default", "web")
		if !ok || got.GetUID() != made.GetUID() {
			t.Errorf("the informer has %v", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAFinalizerKeepsAnObjectUntilItIsCleanedUp(t *testing.T) {
	served(t, func(t *testing.T, c *loop.Clients) {
		client, err := loop.ResourceFor[*settings](c, settingsKind, "configmaps")
		if err != nil {
			t.Fatal(err)
		}
		all := loop.Informer(c, client)
		var heard []string
		finalizer := &loop.Finalizer[*settings]{Name: "example.com/traces", Writer: loop.NewWriter(client, all, "test"),
			Cleanup: func(context.Context, *settings) error { heard = append(heard, "cleaned up"); return nil }}
		l := &loop.Loop{Name: "holder", Clients: c, Watches: []loop.Watch{loop.Self(all)}, Sync: func(ctx context.Context, key loop.Key) (loop.Result, error) {
			object, ok := all.Lookup(key)
			if !ok {
				return loop.Result{}, nil
			}
			goOn, err := finalizer.Handle(ctx, object)
			if goOn && err == nil && key.Name == "web" {
				heard = append(heard, "goes on with it")
			}
			return loop.Result{}, err
		}}
		stop := background(t, program(c, l))
		web := &settings{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		if _, err := client.InNamespace("default").Create(t.Context(), web, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := client.InNamespace("default").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || !slices.Contains(got.Finalizers, "example.com/traces") {
			t.Errorf("it has the finalizers %v (%v)", got.Finalizers, err)
		}
		if err := client.InNamespace("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := all.Get("default", "web"); ok || len(heard) < 2 || heard[len(heard)-1] != "cleaned up" || slices.Index(heard, "cleaned up") != len(heard)-1 {
			t.Errorf("it is still there: %v; heard %q", ok, heard)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPredicatesAvoidSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(pod("web"))
		pods := informer.New(source, informer.Options[*corev1.Pod]{})
		var synced journal
		l := &loop.Loop{Watches: []loop.Watch{loop.Self(pods, loop.LabelsChanged)}, Sync: func(_ context.Context, key loop.Key) (loop.Result, error) {
			synced.add(key.Name)
			return loop.Result{}, nil
		}}
		stop := background(t, loop.Join(pods, l))
		synctest.Wait()
		changed := pod("web")
		changed.Status.Phase = corev1.PodRunning
		source.Modify(changed)
		synctest.Wait()
		synced.want(t, "web")
		changed.Labels = map[string]string{"app": "web"}
		source.Modify(changed)
		synctest.Wait()
		source.Delete(changed)
		synctest.Wait()
		synced.want(t, "web", "web", "web")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAProgramIsReadyWhenItsCachesAreFilled(t *testing.T) {
	c := loop.ClientsFor(fake.NewClientset())
	informer.Share(c.Informers, informertest.NewSource(pod("web")), informer.Options[*corev1.Pod]{Name: "pods"})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := background(t, loop.Serve(listener, loop.Endpoints(c, prometheus.NewRegistry())))
	ask := func(path string) (int, string) {
		t.Helper()
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(body)
	}
	if code, _ := ask("/healthz"); code != 200 {
		t.Errorf("/healthz says %d", code)
	}
	if code, body := ask("/readyz"); code != 503 {
		t.Errorf("/readyz says %d %s before the cache is filled", code, body)
	}
	stopInformers := background(t, c.Informers)
	if err := c.Informers.Synced(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/livez", "/metrics"} {
		if code, body := ask(path); code != 200 {
			t.Errorf("%s says %d %s", path, code, body)
		}
	}
	if err := stopInformers(); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
