package clients_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/apiserver"
	"github.com/millrace/millrace/auth"
	"github.com/millrace/millrace/ownership"
	"github.com/millrace/millrace/registry"
	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/builtin"
	"github.com/millrace/millrace/store"
	"github.com/millrace/millrace/store/faults"
	"github.com/millrace/millrace/store/memory"
	"github.com/millrace/millrace/watchcache"
)

var (
	seed     = flag.Uint64("seed", 0, "what the random test begins with; 0 takes the clock")
	duration = flag.Duration("duration", 2*time.Second, "how long the random test works")
)

// house is an API server on a store that fails when it is told to.
type house struct {
	faults *faults.Store
	cache  *watchcache.Cache
	api    *apiserver.Server
	server *httptest.Server
	config *rest.Config
}

func newHouse(t testing.TB, o watchcache.Options, uncached map[string]bool, change func(*apiserver.Options)) *house {
	t.Helper()
	h := &house{faults: faults.Wrap(memory.New(memory.Options{}))}
	o.Root, o.Backoff = registry.Root, func(int) time.Duration { return time.Millisecond }
	h.cache = watchcache.New(h.faults, o)
	catalogue := must(resource.NewCatalogue(builtin.Kinds()...))(t)
	track := &ownership.Owners{}
	reg := must(registry.New(registry.Options{Store: h.faults, Cache: h.cache, Catalogue: catalogue, Track: track, Uncached: uncached}))(t)
	options := apiserver.Options{Registry: reg, Authenticate: auth.Trusted{}, Authorize: auth.MastersOnly{}, Apply: track,
		BookmarkPeriod: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&options)
	}
	h.api = apiserver.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.cache.Run(ctx) })
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.api.ServeHTTP(w, r.WithContext(auth.WithUser(r.Context(), auth.User{Name: "root", Groups: []string{auth.Masters}})))
	}))
	h.server.EnableHTTP2 = true
	h.server.StartTLS()
	h.config = &rest.Config{Host: h.server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, WrapTransport: impatient}
	t.Cleanup(func() {
		h.api.End()
		h.server.CloseClientConnections()
		h.server.Close()
		cancel()
		running.Wait()
		if err := h.faults.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := h.cache.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// impatient hides how long a server wants a client to wait: client-go would sleep for a second at each fault.
func impatient(inner http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		res, err := inner.RoundTrip(r)
		if err == nil {
			res.Header.Del("Retry-After")
		}
		return res, err
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// model is all that ever happened to the objects, by revision. It is filled by a writer when its write is acknowledged.
type model struct {
	mu      sync.Mutex // guards the rest
	history map[uint64]write
}

// write is one acknowledged change.
type write struct {
	name    string
	labels  map[string]string
	value   string
	deleted bool
}

func (m *model) done(rev uint64, w write) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history[rev] = w
}

// state is what there was at a revision, by name.
func (m *model) state(rev uint64) map[string]write {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]write{}
	for _, r := range slices.Sorted(maps.Keys(m.history)) {
		if r > rev {
			break
		}
		if w := m.history[r]; w.deleted {
			delete(out, w.name)
		} else {
			out[w.name] = w
		}
	}
	return out
}

// seen is one event as a watcher saw it.
type seen struct {
	kind  watch.EventType
	name  string
	value string
	rev   uint64
}

// expected are the events that a selection must get after one revision and up to another.
func (m *model) expected(selected func(map[string]string) bool, from, to uint64) []seen {
	before := m.state(from)
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []seen
	for _, rev := range slices.Sorted(maps.Keys(m.history)) {
		if rev <= from || rev > to {
			continue
		}
		w := m.history[rev]
		old, existed := before[w.name]
		was := existed && selected(old.labels)
		is := !w.deleted && selected(w.labels)
		switch {
		case is && was:
			out = append(out, seen{watch.Modified, w.name, w.value, rev})
		case is:
			out = append(out, seen{watch.Added, w.name, w.value, rev})
		case was:
			out = append(out, seen{watch.Deleted, w.name, old.value, rev})
		}
		if w.deleted {
			delete(before, w.name)
		} else {
			before[w.name] = w
		}
	}
	return out
}

const writers, objects = 6, 12

// TestGuaranteesHoldWhateverHappens lets writers and watchers work while the store fails and connections are cut, and then
// compares what each saw with what was acknowledged.
func TestGuaranteesHoldWhateverHappens(t *testing.T) {
	for _, uncached := range []map[string]bool{nil, {"configmaps": true}} {
		name := "cached"
		if uncached != nil {
			name = "uncached"
		}
		t.Run(name, func(t *testing.T) {
			begin := *seed
			if begin == 0 {
				begin = uint64(time.Now().UnixNano())
			}
			t.Logf("-seed=%d", begin)
			h := newHouse(t, watchcache.Options{WindowEvents: 500}, uncached, nil)
			m := &model{history: map[uint64]write{}}
			ctx, cancel := context.WithTimeout(t.Context(), *duration)
			defer cancel()
			var writing, watching, others sync.WaitGroup
			for i := range writers {
				writing.Go(func() { h.write(ctx, t, m, i, rand.New(rand.NewPCG(begin, uint64(i)))) })
			}
			stop := make(chan uint64)
			for i := range 8 {
				watching.Go(func() { h.follow(t, m, i, rand.New(rand.NewPCG(begin, uint64(100+i))), stop) })
			}
			others.Go(func() { h.trouble(ctx, rand.New(rand.NewPCG(begin, 1000))) })
			others.Go(func() { h.readPages(ctx, t, m) })
			writing.Wait()
			others.Wait()
			last := h.settle(t, m)
			for range 8 {
				stop <- last
			}
			watching.Wait()
			t.Logf("%d writes", len(m.history))
		})
	}
}

func (h *house) client(t testing.TB) corev1client.ConfigMapInterface {
	return must(kubernetes.NewForConfig(h.config))(t).CoreV1().ConfigMaps("default")
}

// write changes objects of its own, so that it always knows what they are; CAS is what it relies on.
func (h *house) write(ctx context.Context, t *testing.T, m *model, id int, random *rand.Rand) {
	client := h.client(t)
	known := map[string]*corev1.ConfigMap{}
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("w%d-%d", id, random.IntN(objects))
		labels := map[string]string{"group": strconv.Itoa(random.IntN(3))}
		value := fmt.Sprintf("%d-%d", id, n)
		old, exists := known[name]
		var err error
		switch {
		case !exists:
			o := configMap(name, labels)
			o.Data["k"] = value
			var made *corev1.ConfigMap
			if made, err = client.Create(context.Background(), o, metav1.CreateOptions{}); err == nil {
				known[name] = made
				m.done(version(t, made.ResourceVersion), write{name: name, labels: labels, value: value})
			}
		case random.IntN(4) == 0:
			uid := old.UID
			err = client.Delete(context.Background(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &old.ResourceVersion}})
			if err == nil {
				delete(known, name)
				h.deleted(t, m, name, version(t, old.ResourceVersion))
			}
		default:
			o := old.DeepCopy()
			o.Labels, o.Data = labels, map[string]string{"k": value}
			var made *corev1.ConfigMap
			if made, err = client.Update(context.Background(), o, metav1.UpdateOptions{}); err == nil {
				known[name] = made
				m.done(version(t, made.ResourceVersion), write{name: name, labels: labels, value: value})
				if stale := old.DeepCopy(); random.IntN(5) == 0 {
					stale.Data = map[string]string{"k": "stale"}
					if _, err := client.Update(context.Background(), stale, metav1.UpdateOptions{}); err == nil {
						t.Errorf("CAS: an update of %s from %s was taken after %s", name, old.ResourceVersion, made.ResourceVersion)
					}
				}
			}
		}
		if err != nil && !isTrouble(err) {
			t.Errorf("CAS: writer %d on its own %s: %v", id, name, err)
			return
		}
	}
}

// isTrouble tells what the injected faults come to. They take no effect, so nothing is in doubt.
func isTrouble(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

// deleted finds the revision of a delete, which the answer does not tell: it is in the store's log.
func (h *house) deleted(t *testing.T, m *model, name string, after uint64) {
	found := errors.New("found")
	err := h.log(t.Context(), "/registry/configmaps/default/"+name, store.Revision(after), func(b store.Batch) error {
		for _, e := range b.Events {
			if e.Type == store.Delete && e.Key == "/registry/configmaps/default/"+name {
				m.done(uint64(e.Revision), write{name: name, deleted: true})
				return found
			}
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Errorf("the delete of %s after %d is not in the log: %v", name, after, err)
	}
}

// log reads the store's log, in spite of cuts.
func (h *house) log(ctx context.Context, prefix string, after store.Revision, sink func(store.Batch) error) error {
	for {
		err := h.faults.Watch(ctx, prefix, after, sink)
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
	}
}

// trouble cuts the store's watches, lets calls fail, and cuts connections.
func (h *house) trouble(ctx context.Context, random *rand.Rand) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		switch random.IntN(6) {
		case 0:
			h.faults.Cut(store.ErrUnavailable)
		case 1:
			h.faults.Fail(faults.Writes, store.ErrUnavailable, 1+random.IntN(3))
		case 2:
			h.faults.Fail(faults.Revision|faults.List, store.ErrUnavailable, 1)
		case 3:
			release := h.faults.Hold()
			time.AfterFunc(5*time.Millisecond, release)
		case 4:
			h.faults.Inject(faults.Rule{Ops: faults.Writes, Delay: 2 * time.Millisecond, Times: 5})
		}
		pause.Reset(time.Duration(5+random.IntN(20)) * time.Millisecond)
	}
}

// settle waits until everything works and returns a revision behind all writes.
func (h *house) settle(t *testing.T, m *model) uint64 {
	client := h.client(t)
	var last *corev1.ConfigMap
	eventually(t, "a last write", func() bool {
		var err error
		last, err = client.Create(t.Context(), configMap("zz-last", map[string]string{"group": "all"}), metav1.CreateOptions{})
		if err == nil {
			m.done(version(t, last.ResourceVersion), write{name: "zz-last", labels: last.Labels, value: "v"})
		}
		return err == nil
	})
	return version(t, last.ResourceVersion)
}

// follow lists and watches as a client does, resuming wherever its watches end, until it has seen the last write.
func (h *house) follow(t *testing.T, m *model, id int, random *rand.Rand, stop <-chan uint64) {
	config := rest.CopyConfig(h.config)
	switch id % 4 {
	case 0:
		config.ContentType, config.AcceptContentTypes = protobuf, protobuf
	case 1:
		config.DisableCompression = true
	}
	client := must(kubernetes.NewForConfig(config))(t).CoreV1().ConfigMaps("default")
	selector, selected := "", func(map[string]string) bool { return true }
	if id%2 == 0 {
		group := strconv.Itoa(id / 2 % 3)
		selector = "group in (all," + group + ")"
		selected = func(l map[string]string) bool { return l["group"] == group || l["group"] == "all" }
	}
	f := &follower{t: t, id: id, client: client, selector: selector, selected: selected, random: random}
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), *duration+30*time.Second)
	defer cancel()
	go func() { defer close(done); f.run(ctx) }()
	last := <-stop
	eventually(t, fmt.Sprintf("watcher %d sees the end", id), func() bool { return f.reached() >= last })
	cancel()
	<-done
	for _, s := range f.stretches {
		s.check(t, m, id, selected)
	}
}

// follower is one watching client.
type follower struct {
	t        *testing.T
	id       int
	client   corev1client.ConfigMapInterface
	selector string
	selected func(map[string]string) bool
	random   *rand.Rand

	mu        sync.Mutex // guards at
	at        uint64
	stretches []*stretch
}

// stretch is what was seen from one list on, over however many watches that resumed each other.
type stretch struct {
	from, to uint64
	initial  map[string]string
	events   []seen
}

func (f *follower) reached() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *follower) reach(rev uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = max(f.at, rev)
}

func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		list, err := f.client.List(ctx, metav1.ListOptions{LabelSelector: f.selector})
		if err != nil {
			continue
		}
		s := &stretch{from: version(f.t, list.ResourceVersion), initial: map[string]string{}}
		s.to = s.from
		for _, o := range list.Items {
			s.initial[o.Name] = o.Data["k"]
		}
		f.stretches = append(f.stretches, s)
		f.reach(s.to)
		for ctx.Err() == nil && f.watch(ctx, s) {
			// It resumes where the one before ended.
		}
	}
}

// watch follows one connection. It tells whether the next may resume.
func (f *follower) watch(ctx context.Context, s *stretch) bool {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	w, err := f.client.Watch(ctx, metav1.ListOptions{LabelSelector: f.selector, ResourceVersion: strconv.FormatUint(s.to, 10), AllowWatchBookmarks: true})
	if err != nil {
		return !apierrors.IsResourceExpired(err)
	}
	defer w.Stop()
	for left := 1 + f.random.IntN(200); left > 0; left-- {
		e, open := <-w.ResultChan()
		if !open {
			return true
		}
		switch o := e.Object.(type) {
		case *metav1.Status:
			return false
		case *corev1.ConfigMap:
			rev := version(f.t, o.ResourceVersion)
			f.see(s, e.Type, o, rev)
		}
	}
	return true
}

func (f *follower) see(s *stretch, kind watch.EventType, o *corev1.ConfigMap, rev uint64) {
	switch {
	case kind == watch.Bookmark && rev < s.to:
		f.t.Errorf("Bookmarkable: watcher %d: a bookmark at %d after %d", f.id, rev, s.to)
	case kind == watch.Bookmark:
		s.to = rev
	case rev < s.to:
		f.t.Errorf("Ordered: watcher %d: %s %s at %d after %d", f.id, kind, o.Name, rev, s.to)
	case rev == s.to:
		f.t.Errorf("Unique, Bookmarkable: watcher %d: %s %s at %d, which had been reached", f.id, kind, o.Name, rev)
	default:
		s.events = append(s.events, seen{kind, o.Name, o.Data["k"], rev})
		s.to = rev
	}
	f.reach(s.to)
}

func (s *stretch) check(t *testing.T, m *model, id int, selected func(map[string]string) bool) {
	t.Helper()
	want := map[string]string{}
	for name, w := range m.state(s.from) {
		if selected(w.labels) {
			want[name] = w.value
		}
	}
	if !maps.Equal(want, s.initial) {
		t.Errorf("Filterable, linearizable: watcher %d listed at %d:\n got %v\nwant %v", id, s.from, s.initial, want)
	}
	expected := m.expected(selected, s.from, s.to)
	if slices.Equal(expected, s.events) {
		return
	}
	for i := range max(len(expected), len(s.events)) {
		switch {
		case i >= len(s.events):
			t.Errorf("Reliable, Resumable: watcher %d missed %v", id, expected[i])
		case i >= len(expected):
			t.Errorf("Filterable: watcher %d saw %v too much", id, s.events[i])
		case expected[i] != s.events[i]:
			t.Errorf("Reliable, Filterable: watcher %d saw %v instead of %v", id, s.events[i], expected[i])
		default:
			continue
		}
		return
	}
}

// readPages writes, lists at once, and goes through pages while others write.
func (h *house) readPages(ctx context.Context, t *testing.T, m *model) {
	client := h.client(t)
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("reader-%d", n)
		made, err := client.Create(ctx, configMap(name, map[string]string{"group": "none"}), metav1.CreateOptions{})
		if err != nil {
			continue
		}
		m.done(version(t, made.ResourceVersion), write{name: name, labels: made.Labels, value: "v"})
		var all []corev1.ConfigMap
		o := metav1.ListOptions{Limit: 7}
		var first string
		for ok := true; ok; ok = o.Continue != "" {
			list, err := client.List(ctx, o)
			if err != nil {
				all = nil
				break
			}
			if first == "" {
				first = list.ResourceVersion
				if version(t, first) < version(t, made.ResourceVersion) {
					t.Errorf("linearizable: a list at %s after a write at %s", first, made.ResourceVersion)
				}
			}
			if list.ResourceVersion != first {
				t.Errorf("one snapshot: a page of %s after one of %s", list.ResourceVersion, first)
			}
			all = append(all, list.Items...)
			o.Continue = list.Continue
		}
		if all == nil {
			continue
		}
		if !slices.ContainsFunc(all, func(o corev1.ConfigMap) bool { return o.Name == name }) {
			t.Errorf("linearizable: %s is not in the list", name)
		}
		t.Cleanup(func() { checkSnapshot(t, m, all, version(t, first)) })
	}
}

func checkSnapshot(t *testing.T, m *model, all []corev1.ConfigMap, rev uint64) {
	got := map[string]string{}
	for _, o := range all {
		got[o.Name] = o.Data["k"]
	}
	want := map[string]string{}
	for name, w := range m.state(rev) {
		want[name] = w.value
	}
	if !maps.Equal(got, want) {
		t.Errorf("one snapshot: pages of %d differ:\n got %v\nwant %v", rev, got, want)
	}
}

func TestAnExpiredPageComesWithATokenToGoOn(t *testing.T) {
	for _, uncached := range []map[string]bool{nil, {"configmaps": true}} {
		h := newHouse(t, watchcache.Options{WindowEvents: 64}, uncached, nil)
		client := h.client(t)
		for i := range 10 {
			must(client.Create(t.Context(), configMap(fmt.Sprintf("c%02d", i), nil), metav1.CreateOptions{}))(t)
		}
		page := must(client.List(t.Context(), metav1.ListOptions{Limit: 4}))(t)
		for range 100 {
			o := must(client.Get(t.Context(), "c09", metav1.GetOptions{}))(t)
			o.Data["k"] += "."
			must(client.Update(t.Context(), o, metav1.UpdateOptions{}))(t)
		}
		if err := h.faults.Compact(t.Context(), must(h.faults.Revision(t.Context()))(t)); err != nil {
			t.Fatal(err)
		}
		_, err := client.List(t.Context(), metav1.ListOptions{Limit: 4, Continue: page.Continue})
		var status apierrors.APIStatus
		if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
			t.Fatalf("uncached %v: %v", uncached, err)
		}
		rest := must(client.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: status.Status().Continue}))(t)
		if len(rest.Items) != 6 || rest.Items[0].Name != "c04" || !strings.HasSuffix(rest.Items[5].Data["k"], ".") {
			t.Errorf("the rest has %d items", len(rest.Items))
		}
	}
}
