package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	cachetest "k8s.io/client-go/tools/cache/testing"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/cputime"
	"github.com/millrace/millrace/watch"
)

// The benchmarks of dispatch leave decoding out: both libraries get decoded pods from memory. Measured is the way from
// the watch through the cache to fifty handlers.

const handlers = 50

func podAt(i, revision int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("pod-", i), UID: "1", ResourceVersion: fmt.Sprint(revision)}}
}

const distinct = 1000

func awaitAll(b *testing.B, heard *atomic.Int64, want int64) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); heard.Load() < want; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			b.Fatalf("heard of %d of %d", heard.Load(), want)
		}
	}
}

func BenchmarkDispatchToFiftyHandlers(b *testing.B) {
	b.Run("millrace", func(b *testing.B) {
		stream := watch.NewFake[*corev1.Pod]()
		source := informer.Funcs[*corev1.Pod]{
			ListFunc: func(context.Context, metav1.ListOptions) ([]*corev1.Pod, metav1.ListMeta, error) {
				return nil, metav1.ListMeta{ResourceVersion: "1"}, nil
			},
			WatchFunc: func(context.Context, metav1.ListOptions) (watch.Stream[*corev1.Pod], error) { return stream, nil },
		}
		pods := informer.New(source, informer.Options[*corev1.Pod]{DisableStreaming: true})
		var heard atomic.Int64
		for range handlers {
			pods.Handle(informer.Handler[*corev1.Pod]{
				Added:   func(*corev1.Pod, bool) { heard.Add(1) },
				Updated: func(_, _ *corev1.Pod) { heard.Add(1) },
			})
		}
		dispatch(b, &heard, func(ctx context.Context) { _ = pods.Run(ctx) }, func(i, revision int) { stream.Modify(podAt(i, revision)) })
	})
	b.Run("client-go", func(b *testing.B) {
		source := cachetest.NewFakeControllerSource()
		pods := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{})
		var heard atomic.Int64
		for range handlers {
			_, _ = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { heard.Add(1) },
				UpdateFunc: func(_, _ any) { heard.Add(1) },
			})
		}
		dispatch(b, &heard, pods.RunWithContext, func(i, revision int) { source.Modify(podAt(i, revision)) })
	})
}

// dispatch sends rounds of changes and waits for all handlers. Each change of a round is of another pod, so none can be
// merged.
func dispatch(b *testing.B, heard *atomic.Int64, run func(context.Context), change func(i, revision int)) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); run(ctx) }()
	defer func() { cancel(); <-ended }()
	revision := 1
	round := func() {
		before := heard.Load()
		for i := range distinct {
			revision++
			change(i, revision)
		}
		awaitAll(b, heard, before+distinct*handlers)
	}
	round()
	began := cputime.Process()
	rounds := 0
	for b.Loop() {
		round()
		rounds++
	}
	b.ReportMetric(float64(cputime.Process()-began)/float64(rounds*distinct), "cpu-ns/event")
	b.ReportMetric(float64(b.Elapsed())/float64(rounds*distinct), "ns/event")
}
