package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/watch"
)

// The answers of servers that do not stream lists: their words are those of kube-apiserver.
const (
	onOldEtcd = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error ` +
		`occurred: a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled",` +
		`"reason":"InternalError","details":{"causes":[{"message":"the same"}]},"code":500}}` + "\n"
	withoutTheFeature = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"ListOptions.meta.k8s.io \"\" is ` +
		`invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",` +
		`"reason":"Invalid","details":{"group":"meta.k8s.io","kind":"ListOptions"},"code":422}`
)

// oldServer answers lists of pods, and streams none: streamed answers requests for that.
func oldServer(t *testing.T, streamed http.HandlerFunc) (config *rest.Config, lists *atomic.Int32) {
	lists = &atomic.Int32{}
	item := pod("a", "one")
	item.ResourceVersion = "5"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		q := r.URL.Query()
		switch {
		case q.Get("sendInitialEvents") != "":
			streamed(w, r)
		case q.Get("watch") != "":
			fmt.Fprintln(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"two","namespace":"a","resourceVersion":"8"}}}`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			lists.Add(1)
			_ = json.NewEncoder(w).Encode(&corev1.PodList{
				TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Pod{*item},
			})
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, lists
}

func TestAnInformerFollowsServersThatDoNotStreamLists(t *testing.T) {
	for name, streamed := range map[string]http.HandlerFunc{
		"on an etcd that reports no progress": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, onOldEtcd) },
		"without the feature": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, withoutTheFeature)
		},
		"that knows no such parameter": func(w http.ResponseWriter, r *http.Request) {
			for n := range 3 {
				fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d","namespace":"a","resourceVersion":"5"}}}`+"\n", n)
			}
			fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"that fails": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "out of order", http.StatusInternalServerError)
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, lists := oldServer(t, streamed)
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			came := make(chan string, 10)
			pods := informer.New(informer.For(kube.CoreV1().Pods("")), informer.Options[*corev1.Pod]{StreamTimeout: 50 * time.Millisecond})
			pods.Handle(informer.Handler[*corev1.Pod]{Added: func(p *corev1.Pod, _ bool) { came <- p.Name }})
			start(t, pods)
			if one, two := <-came, <-came; one != "one" || two != "two" {
				t.Errorf("the pods are %s and %s", one, two)
			}
			if lists.Load() == 0 {
				t.Error("the pods do not come from a list")
			}
		})
	}
}

// A server that ignores that a list was asked for watches instead. In a busy cluster that is never silent.
func TestChangesAreNoProgressOfAStreamedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := informertest.NewSource(pod("a", "one"))
		stream := watch.NewFake[*corev1.Pod]()
		wrapped := informer.Funcs[*corev1.Pod]{ListFunc: source.List,
			WatchFunc: func(ctx context.Context, o metav1.ListOptions) (watch.Stream[*corev1.Pod], error) {
				if o.SendInitialEvents != nil {
					return stream, nil
				}
				return source.Watch(ctx, o)
			}}
		pods := informer.New(wrapped, informer.Options[*corev1.Pod]{StreamTimeout: 7 * time.Second})
		start(t, pods)
		began := time.Now()
		busy, done := context.WithCancel(t.Context())
		defer done()
		var sending sync.WaitGroup
		sending.Go(func() {
			stream.Add(pod("a", "one"))
			for n := 0; busy.Err() == nil; n++ {
				time.Sleep(time.Second)
				if n%2 == 0 {
					stream.Modify(pod("a", "one"))
				} else {
					stream.Add(pod("a", fmt.Sprint("new", n)))
				}
			}
		})
		mustSync(t, pods)
		if waited := time.Since(began); waited > 10*time.Second {
			t.Errorf("fell back after %v", waited)
		}
		done()
		sending.Wait()
	})
}
