package watchcache

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/millrace/millrace/internal/server/store"
)

// benchPods is the number of pods. Each has about 3.5 KB, as Kubernetes stores them.
const benchPods = 100_000

// canned is a store that holds pods and has no log: the benchmarks apply the batches themselves.
type canned struct {
	store.Store
	pods int
}

func (c canned) Revision(context.Context) (store.Revision, error) { return 1, nil }

func (c canned) List(_ context.Context, prefix string, o store.ListOptions) (store.Page, error) {
	p := store.Page{Revision: 1}
	first := 0
	if o.From != "" {
		fmt.Sscanf(o.From[len(prefix)+len("default/pod-"):], "%d", &first)
		first++
	}
	for i := first; i < min(first+o.Limit, c.pods); i++ {
		p.Entries = append(p.Entries, store.Entry{Key: benchKey(i), Value: benchValue(i, 0), Revision: 1})
	}
	p.More = first+o.Limit < c.pods
	return p, nil
}

func benchKey(i int) string { return fmt.Sprintf("/registry/pods/default/pod-%06d", i) }

var benchPadding = strings.Repeat("x", 3000)

func benchValue(i, version int) []byte {
	return fmt.Appendf(nil, "app.kubernetes.io/name=web,app.kubernetes.io/instance=web-%d,app.kubernetes.io/part-of=shop,"+
		"pod-template-hash=%d,tier=front,env=prod|node-%d|Running|Always|default-scheduler|default|10.0.%d.%d|false|%d|%s",
		i/100, i/100, i%1000, i>>8&255, i&255, version, benchPadding)
}

// benchAttributes costs about as much as a scan of a protobuf's metadata, and allocates two slices.
func benchAttributes(_ string, value []byte) (Attributes, error) {
	s := unsafe.String(unsafe.SliceData(value), len(value))
	all, rest, _ := strings.Cut(s, "|")
	labels := make([]Label, 0, 8)
	for all != "" {
		var pair string
		pair, all, _ = strings.Cut(all, ",")
		k, v, _ := strings.Cut(pair, "=")
		labels = append(labels, Label{k, v})
	}
	fields := make([]string, 0, 7)
	for range 7 {
		var f string
		f, rest, _ = strings.Cut(rest, "|")
		fields = append(fields, f)
	}
	return Attributes{Labels: MakeLabels(labels), Fields: fields}, nil
}

func benchCache(b testing.TB, pods int, o Options) (*Cache, *Kind) {
	c := New(canned{pods: pods}, o)
	k, err := c.Add(KindOptions{
		Name: "pods", Prefix: "/registry/pods/", Namespaced: true, Attributes: benchAttributes,
		Fields:  []string{"spec.nodeName", "status.phase", "r", "s", "a", "i", "h"},
		Indexed: []int{0},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.fill(b.Context()); err != nil {
		b.Fatal(err)
	}
	return c, k
}

// writes makes batches of changes to random pods, with values that were made beforehand.
type writes struct {
	rev    store.Revision
	n      int
	pods   int
	values [][]byte
}

func newWrites(pods int) *writes {
	w := &writes{rev: 1, pods: pods}
	for i := range 5000 {
		w.values = append(w.values, benchValue(i, 1))
	}
	return w
}

func (w *writes) batch(size int) store.Batch {
	b := store.Batch{Events: make([]store.Event, size)}
	for i := range b.Events {
		w.n++
		w.rev++
		b.Events[i] = store.Event{Key: benchKey(w.n * 7919 % w.pods), Value: w.values[w.n%len(w.values)], Revision: w.rev}
	}
	b.Revision = w.rev
	return b
}

func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, watched := range []string{"nobody", "other nodes", "a snapshot each"} {
			b.Run(fmt.Sprintf("batch=%d/%s", size, watched), func(b *testing.B) {
				c, k := benchCache(b, benchPods, Options{})
				if watched == "other nodes" {
					for i := range 5000 {
						_, cur, err := k.WatchFromNow(Field(0, fmt.Sprintf("other-%d", i)))
						if err != nil {
							b.Fatal(err)
						}
						defer cur.Close()
					}
				}
				w := newWrites(benchPods)
				batches := make([]store.Batch, 20_000/size)
				b.ReportAllocs()
				events, next := 0, len(batches)
				for b.Loop() {
					if next == len(batches) {
						b.StopTimer()
						for next = range batches {
							batches[next] = w.batch(size)
						}
						next = 0
						b.StartTimer()
					}
					if err := c.apply(batches[next]); err != nil {
						b.Fatal(err)
					}
					next++
					if watched == "a snapshot each" {
						k.Snapshot()
					}
					events += size
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
			})
		}
	}
}

func BenchmarkFanOut(b *testing.B) {
	for _, cursors := range []int{1, 1000} {
		for _, size := range []int{1, 10} {
			b.Run(fmt.Sprintf("cursors=%d/batch=%d", cursors, size), func(b *testing.B) {
				c, k := benchCache(b, 1000, Options{})
				var readers, round sync.WaitGroup
				for range cursors {
					_, cur, err := k.WatchFromNow(All())
					if err != nil {
						b.Fatal(err)
					}
					readers.Go(func() {
						for {
							_, ok, err := cur.Next()
							switch {
							case err != nil:
								return
							case ok:
								round.Done()
							default:
								<-cur.Wake()
							}
						}
					})
				}
				w := newWrites(1000)
				runtime.Gosched()
				b.ReportAllocs()
				events := 0
				for b.Loop() {
					round.Add(cursors * size)
					if err := c.apply(w.batch(size)); err != nil {
						b.Fatal(err)
					}
					round.Wait()
					events += size * cursors
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/delivery")
				c.stop()
				readers.Wait()
			})
		}
	}
}

func BenchmarkOpenCursor(b *testing.B) {
	c, k := benchCache(b, benchPods, Options{})
	w := newWrites(benchPods)
	for range 100 {
		c.apply(w.batch(100))
	}
	topics := map[string]Topic{"all": All(), "key": Key(benchKey(1)), "node": Field(0, "node-1")}
	for name, topic := range topics {
		for _, back := range []store.Revision{0, 1000} {
			b.Run(fmt.Sprintf("%s/%d back", name, back), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					cur, err := k.Watch(w.rev-back, topic)
					if err != nil {
						b.Fatal(err)
					}
					for ok := true; ok; {
						_, ok, _ = cur.Next()
					}
					cur.Close()
				}
			})
		}
	}
}

func BenchmarkSnapshotAt(b *testing.B) {
	c, k := benchCache(b, benchPods, Options{})
	w := newWrites(benchPods)
	for range 100 {
		c.apply(w.batch(100))
	}
	for _, back := range []store.Revision{1, 100, 5000} {
		b.Run(fmt.Sprintf("%d back", back), func(b *testing.B) {
			for b.Loop() {
				k.past = nil
				if _, err := k.SnapshotAt(w.rev - back); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			if _, err := k.SnapshotAt(w.rev - 5000); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	_, k := benchCache(b, benchPods, Options{})
	b.Run("get", func(b *testing.B) {
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = benchKey(i * 7919 % benchPods)
		}
		n := 0
		for b.Loop() {
			n++
			if _, ok := k.Get(keys[n%len(keys)]); !ok {
				b.Fatal("not found")
			}
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			k.Snapshot()
		}
	})
	b.Run("page of 500 and count", func(b *testing.B) {
		s := k.Snapshot()
		for b.Loop() {
			n := 0
			for range s.Range("/registry/pods/", benchKey(50_000)) {
				if n++; n == 500 {
					break
				}
			}
			if s.CountRange("/registry/pods/", benchKey(50_499)) != 49_500 {
				b.Fatal("wrong count")
			}
		}
	})
	b.Run("all 100000", func(b *testing.B) {
		s := k.Snapshot()
		for b.Loop() {
			n := 0
			for range s.Range("/registry/pods/", "") {
				n++
			}
			if n != benchPods {
				b.Fatal(n)
			}
		}
	})
}

// BenchmarkMemory reports how much heap memory a cache of pods uses.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	b.Run("pods", func(b *testing.B) {
		before := heap()
		_, k := benchCache(b, benchPods, Options{})
		values := 0
		for o := range k.Snapshot().Range("", "") {
			values += cap(o.body.Load().bytes)
		}
		after := heap()
		for b.Loop() {
			runtime.KeepAlive(k)
		}
		b.ReportMetric((after-before-float64(values))/benchPods, "B/pod-besides-value")
		b.ReportMetric(float64(values)/benchPods, "B/value")
	})
	for name, topic := range map[string]func(int) Topic{
		"cursors on all":           func(int) Topic { return All() },
		"cursors on one node each": func(i int) Topic { return Field(0, fmt.Sprintf("node-%d", i)) },
	} {
		b.Run(name, func(b *testing.B) {
			_, k := benchCache(b, 10, Options{})
			const n = 10_000
			cursors := make([]*Cursor, n)
			topics := make([]Topic, n)
			for i := range n {
				topics[i] = topic(i)
			}
			before := heap()
			for i := range cursors {
				_, cursors[i], _ = k.WatchFromNow(topics[i])
				cursors[i].Wake()
			}
			after := heap()
			for b.Loop() {
				runtime.KeepAlive(cursors)
			}
			b.ReportMetric((after-before)/n, "B/cursor")
		})
	}
}
