package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/informertest"
	"github.com/millrace/millrace/informer/internal/state"
	"github.com/millrace/millrace/informer/internal/wire"
	"github.com/millrace/millrace/watch"
)

var (
	byNodeName = informer.FieldIndex[*corev1.Pod]("spec.nodeName")
	byApp      = informer.NewIndex(func(p *corev1.Pod) []string { return []string{p.Labels["app"]} })
)

// faults adds random faults to what a source delivers, until it is healed.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	healed bool       // guarded by mu
}

// strikes returns true once in n calls, at random.
func (f *faults) strikes(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.healed && f.random.IntN(n) == 0
}

func (f *faults) delay() {
	if f.strikes(5) {
		f.mu.Lock()
		wait := time.Duration(f.random.IntN(3000)) * time.Millisecond
		f.mu.Unlock()
		time.Sleep(wait)
	}
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.healed = true
}

// unreliable is a source behind a bad connection.
type unreliable[I any] struct {
	informer.Source[I]
	faults *faults
}

func (u *unreliable[I]) List(ctx context.Context, options metav1.ListOptions) ([]I, metav1.ListMeta, error) {
	u.faults.delay()
	if u.faults.strikes(4) {
		return nil, metav1.ListMeta{}, apierrors.NewInternalError(errors.New("the list has failed"))
	}
	return u.Source.List(ctx, options)
}

func (u *unreliable[I]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[I], error) {
	u.faults.delay()
	switch {
	case u.faults.strikes(4):
		return nil, errors.New("connection refused")
	case u.faults.strikes(8):
		return nil, apierrors.NewResourceExpired("too old resource version: 1 (2)")
	}
	stream, err := u.Source.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return &unreliableStream[I]{Stream: stream, faults: u.faults}, nil
}

// unreliableStream cuts, delays and repeats events at random.
type unreliableStream[I any] struct {
	watch.Stream[I]
	faults  *faults
	history []watch.Event[I]
	replay  []watch.Event[I]
}

func (s *unreliableStream[I]) Next(ctx context.Context) (watch.Event[I], error) {
	s.faults.delay()
	switch {
	case s.faults.strikes(60):
		return watch.Event[I]{}, io.EOF
	case s.faults.strikes(60):
		return watch.Event[I]{}, io.ErrUnexpectedEOF
	case s.faults.strikes(100):
		return watch.Event[I]{Type: "NONSENSE"}, nil
	case len(s.replay) == 0 && s.faults.strikes(10):
		s.replay = append(s.replay, s.history...)
	}
	if len(s.replay) > 0 {
		event := s.replay[0]
		s.replay = s.replay[1:]
		if object, ok := any(event.Object).(informer.Object); ok {
			event.Object = any(object.DeepCopyObject()).(I) // what a source delivers belongs to the receiver
		}
		return event, nil
	}
	event, err := s.Stream.Next(ctx)
	if err == nil && event.Type != watch.Bookmark && event.Type != watch.Error {
		kept := event
		if object, ok := any(event.Object).(informer.Object); ok {
			kept.Object = any(object.DeepCopyObject()).(I)
		}
		s.history = append(s.history, kept)
		if len(s.history) > 10 {
			s.history = s.history[1:]
		}
	}
	return event, err
}

// witness is a handler that checks what it receives. Each complaint starts with the name of the violated guarantee.
type witness struct {
	t      *testing.T
	random *rand.Rand
	slow   bool
	panics bool

	reg    *informer.Registration[*corev1.Pod]
	mu     sync.Mutex
	busy   bool
	knows  map[informer.Key]*corev1.Pod // guarded by mu
	newest map[informer.Key]uint64      // guarded by mu: the newest version of each object that it ever received
}

func (w *witness) handler() informer.Handler[*corev1.Pod] {
	return informer.Handler[*corev1.Pod]{
		Added: func(pod *corev1.Pod, initial bool) {
			w.hear(pod, func(known *corev1.Pod) {
				if known != nil {
					w.t.Errorf("Ordered: %s was added twice", informer.KeyOf(pod))
				}
				if initial && w.reg.HasSynced() {
					w.t.Errorf("Complete: %s is initial although the handler has synced", informer.KeyOf(pod))
				}
			}, pod)
		},
		Updated: func(old, new *corev1.Pod) {
			w.hear(new, func(known *corev1.Pod) {
				switch {
				case known == nil:
					w.t.Errorf("Ordered: %s was updated before it was added", informer.KeyOf(new))
				case known.ResourceVersion != old.ResourceVersion:
					w.t.Errorf("Ordered: old of %s is at %s, but %s was told last", informer.KeyOf(new), old.ResourceVersion, known.ResourceVersion)
				case known.UID != new.UID:
					w.t.Errorf("Ordered: %s became another object without a deletion", informer.KeyOf(new))
				}
			}, new)
		},
		Deleted: func(last *corev1.Pod, unknown bool) {
			w.hear(last, func(known *corev1.Pod) {
				switch {
				case known == nil:
					w.t.Errorf("Ordered: %s was deleted before it was added", informer.KeyOf(last))
				case known.UID != last.UID:
					w.t.Errorf("Truthful: the deleted %s is not the object that was there", informer.KeyOf(last))
				}
			}, nil)
		},
	}
}

func (w *witness) hear(pod *corev1.Pod, check func(known *corev1.Pod), now *corev1.Pod) {
	w.mu.Lock()
	if w.busy {
		w.t.Errorf("Serial: two functions were called at once")
	}
	w.busy = true
	check(w.knows[informer.KeyOf(pod)])
	if version := state.ParseRevision(pod.ResourceVersion); version < w.newest[informer.KeyOf(pod)] {
		w.t.Errorf("Ordered: %s went back from %d to %d", informer.KeyOf(pod), w.newest[informer.KeyOf(pod)], version)
	} else {
		w.newest[informer.KeyOf(pod)] = version
	}
	if now == nil {
		delete(w.knows, informer.KeyOf(pod))
	} else {
		w.knows[informer.KeyOf(pod)] = now
	}
	pause, fault := w.slow && w.random.IntN(3) == 0, w.panics && w.random.IntN(5) == 0
	w.mu.Unlock()
	if pause {
		time.Sleep(time.Second)
	}
	w.mu.Lock()
	w.busy = false
	w.mu.Unlock()
	if fault {
		panic("a fault in a handler")
	}
}

// agrees compares the objects that the witness knows with the source's.
func (w *witness) agrees(truth []*corev1.Pod) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.knows) != len(truth) {
		return fmt.Errorf("Converging: a handler knows %d objects, there are %d", len(w.knows), len(truth))
	}
	for _, pod := range truth {
		if known := w.knows[informer.KeyOf(pod)]; known == nil || known.ResourceVersion != pod.ResourceVersion {
			return fmt.Errorf("Converging: a handler does not know %s at %s", informer.KeyOf(pod), pod.ResourceVersion)
		}
	}
	return nil
}

func TestTheCacheConvergesAndHandlersSeeValidHistoriesWhateverHappens(t *testing.T) {
	first := randomly.Seed(t)
	for _, mode := range []string{"decoded", "encoded", "pages"} {
		for seed := first; seed < first+6; seed++ {
			t.Run(fmt.Sprintf("%s/seed=%d", mode, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { simulate(t, mode, seed) })
			})
		}
	}
}

func simulate(t *testing.T, mode string, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	truth := informertest.NewSource[*corev1.Pod]()
	truth.RefuseStreaming = mode == "pages"
	trouble := &faults{random: rand.New(rand.NewPCG(seed, 2))}
	var source informer.Source[*corev1.Pod] = &unreliable[*corev1.Pod]{Source: truth, faults: trouble}
	if mode == "encoded" {
		source = informer.WithEncoded(source, &unreliable[*wire.Object]{Source: wire.Encoded(wire.Source[*corev1.Pod](truth), false), faults: trouble})
	}
	pods := informer.New[*corev1.Pod](source, informer.Options[*corev1.Pod]{
		HotBytes: 300, PageSize: 4, Backoff: informer.Backoff{Initial: 10 * time.Millisecond, Max: time.Second},
		Indexes: []*informer.Index[*corev1.Pod]{byNodeName, byApp}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()

	var witnesses []*witness
	for range 1200 {
		switch n := random.IntN(100); {
		case n == 0 && len(witnesses) < 12:
			w := &witness{t: t, random: rand.New(rand.NewPCG(seed, uint64(n))), slow: random.IntN(3) == 0, panics: random.IntN(3) == 0, knows: map[informer.Key]*corev1.Pod{}, newest: map[informer.Key]uint64{}}
			w.mu.Lock()
			w.reg = pods.Handle(w.handler())
			w.mu.Unlock()
			witnesses = append(witnesses, w)
		case n == 1 && len(witnesses) > 3:
			witnesses[0].reg.Close()
			witnesses = witnesses[1:]
		case n == 2:
			truth.Compact()
		case n == 3:
			truth.SendBookmarks()
		case n == 4:
			time.Sleep(time.Duration(random.IntN(60)) * time.Second)
		default:
			scribble(truth, random)
		}
		if random.IntN(3) == 0 {
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		}
	}
	trouble.heal()
	truth.EndWatches(nil)
	time.Sleep(20 * time.Minute) // enough for every back-off and every slow handler

	want := truth.Objects()
	compareCache(t, pods, want)
	for _, w := range witnesses {
		if err := w.agrees(want); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// scribble makes a random change.
func scribble(truth *informertest.Source[*corev1.Pod], random *rand.Rand) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("ns", random.IntN(3)), Name: fmt.Sprint("pod", random.IntN(6))}}
	pod.Spec.NodeName = fmt.Sprint("node", random.IntN(3))
	pod.Labels = map[string]string{"app": fmt.Sprint("app", random.IntN(2))}
	switch random.IntN(6) {
	case 0:
		truth.Add(pod) // perhaps another object with an old name
	case 1, 2:
		truth.Delete(pod)
	default:
		truth.Modify(pod)
	}
}

func compareCache(t *testing.T, pods *informer.Shared[*corev1.Pod], want []*corev1.Pod) {
	t.Helper()
	if pods.Len() != len(want) {
		t.Errorf("Converging: the cache has %d objects, the source %d", pods.Len(), len(want))
	}
	uids := map[informer.Key]types.UID{}
	perNode, perApp := map[string]int{}, map[string]int{}
	for _, pod := range want {
		uids[informer.KeyOf(pod)] = pod.UID
		perNode[pod.Spec.NodeName]++
		perApp[pod.Labels["app"]]++
		got, ok := pods.Lookup(informer.KeyOf(pod))
		if !ok || got.ResourceVersion != pod.ResourceVersion || got.UID != pod.UID || got.Spec.NodeName != pod.Spec.NodeName {
			t.Errorf("Converging: the cache has %v for %s at %s", got, informer.KeyOf(pod), pod.ResourceVersion)
		}
	}
	for i := range 3 {
		node, app := fmt.Sprint("node", i), fmt.Sprint("app", i)
		for pod := range pods.By(byNodeName, node) {
			perNode[pod.Spec.NodeName]--
		}
		for pod := range pods.By(byApp, app) {
			perApp[pod.Labels["app"]]--
		}
		if perNode[node] != 0 || perApp[app] != 0 {
			t.Errorf("Converging: the indexes are off by %d under %s and by %d under %s", perNode[node], node, perApp[app], app)
		}
	}
}
