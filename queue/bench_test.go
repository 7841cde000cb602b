package queue_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/util/workqueue"

	"github.com/millrace/millrace/queue"
)

// workQueue is what the two queues have in common.
type workQueue interface {
	Add(key string)
	Get() (string, bool)
	Done(key string)
	ShutDown()
}

// ours adapts Queue to client-go's interface.
type ours struct{ *queue.Queue[string] }

func (o ours) Get() (string, bool) {
	key, err := o.Queue.Get(context.Background())
	return key, err != nil
}

func compareQueues(b *testing.B, f func(b *testing.B, q workQueue)) {
	b.Run("millrace", func(b *testing.B) {
		b.ReportAllocs()
		f(b, ours{queue.New(queue.Options[string]{})})
	})
	b.Run("client-go", func(b *testing.B) {
		b.ReportAllocs()
		f(b, workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()))
	})
}

func manyKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "namespace/pod-" + strconv.Itoa(i)
	}
	return keys
}

// One key goes through an otherwise empty queue.
func BenchmarkAddGetDone(b *testing.B) {
	compareQueues(b, func(b *testing.B, q workQueue) {
		for b.Loop() {
			q.Add("namespace/pod")
			key, _ := q.Get()
			q.Done(key)
		}
		q.ShutDown()
	})
}

// The keys that are added are already waiting.
func BenchmarkAddDuplicate(b *testing.B) {
	compareQueues(b, func(b *testing.B, q workQueue) {
		q.Add("namespace/pod")
		for b.Loop() {
			q.Add("namespace/pod")
		}
		q.ShutDown()
	})
}

// 10,000 keys go in, then out.
func BenchmarkFillAndDrain10000(b *testing.B) {
	keys := manyKeys(10_000)
	compareQueues(b, func(b *testing.B, q workQueue) {
		for b.Loop() {
			for _, key := range keys {
				q.Add(key)
			}
			for range keys {
				key, _ := q.Get()
				q.Done(key)
			}
		}
		q.ShutDown()
	})
}

// Two goroutines add keys and four work, on 1,000 keys.
func BenchmarkContended(b *testing.B) {
	keys := manyKeys(1_000)
	compareQueues(b, func(b *testing.B, q workQueue) {
		var workers, adders sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					key, end := q.Get()
					if end {
						return
					}
					q.Done(key)
				}
			})
		}
		for b.Loop() {
			for range 2 {
				adders.Go(func() {
					for _, key := range keys {
						q.Add(key)
					}
				})
			}
			adders.Wait()
		}
		q.ShutDown()
		workers.Wait()
	})
}
