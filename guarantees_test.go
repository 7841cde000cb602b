package millrace_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/store"
	"github.com/millrace/millrace/server/store/faults"
)

var (
	seed     = flag.Uint64("seed", 0, "what the random test begins with; 0 takes the clock")
	duration = flag.Duration("duration", 3*time.Second, "how long the random test works on each kind of store")
)

// world is a cluster to which everything happens, and those who use it all the while.
type world struct {
	t       *testing.T
	options millrace.Options
	random  *rand.Rand
	network *network
	config  *rest.Config
	truth   *truth

	reading sync.WaitGroup // whoever reads the log of the present cluster

	// These belong to the one who makes trouble.
	cluster               *millrace.Cluster
	faults                *faults.Store
	restarts, compactions int

	mu    sync.Mutex // guards lists
	lists []lists
}

// lists is one state that somebody was shown.
type lists struct {
	guarantee string
	selector  selector
	rev       store.Revision
	items     map[string]version
}

func (w *world) keep(l lists) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists = append(w.lists, l)
}

// TestGuaranteesHoldWhateverHappens lets writers, readers and watchers work while the store fails and is compacted,
// connections are cut and the server is restarted, and then compares what each of them saw with the store's log.
func TestGuaranteesHoldWhateverHappens(t *testing.T) {
	for name, options := range map[string]func(*testing.T) millrace.Options{
		"memory": func(*testing.T) millrace.Options { return millrace.Options{Uncached: []string{"secrets"}} },
		"etcd": func(t *testing.T) millrace.Options {
			return millrace.Options{Data: t.TempDir(), Uncached: []string{"secrets"}}
		},
		"etcd without a cache": func(t *testing.T) millrace.Options {
			return millrace.Options{Data: t.TempDir(), Uncached: []string{"*"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := *seed
			if begin == 0 {
				begin = uint64(time.Now().UnixNano())
			}
			t.Logf("-seed=%d", begin)
			o := options(t)
			o.Controllers, o.NoScheduler, o.CompactEvery = []string{}, true, -1
			o.Window = func(string) (int, int) { return 100, 0 }
			o.Serving.BookmarkPeriod = 20 * time.Millisecond
			w := newWorld(t, o, begin)
			w.live(begin)
		})
	}
}

func newWorld(t *testing.T, o millrace.Options, begin uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(begin, 1000)), truth: newTruth(t)}
	w.options = millrace.Around(o, func(s store.Store) store.Store {
		w.faults = faults.Wrap(s)
		return w.faults
	})
	w.start()
	w.network = newNetwork(t, strings.TrimPrefix(w.cluster.URL(), "https://"))
	w.config = w.cluster.Config()
	w.config.Host = "https://" + w.network.address()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts the server, anew or for the first time.
func (w *world) start() {
	c, err := millrace.Start(context.Background(), w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cluster = c
	log := c.Store()
	w.reading.Go(func() { w.truth.follow(context.Background(), log) })
}

func (w *world) stop() {
	if err := w.cluster.Close(); err != nil {
		w.t.Error(err)
	}
	w.reading.Wait()
}

// everybody uses the world at the same time.
const manyWriters, manyReaders, manyFollowers = 6, 2, 12

func (w *world) live(begin uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), *duration)
	defer cancel()
	following, end := context.WithCancel(context.Background())
	defer end()
	source := func(id int) *rand.Rand { return rand.New(rand.NewPCG(begin, uint64(id))) }
	var working, watching sync.WaitGroup
	var all []*writer
	for i := range manyWriters {
		one := &writer{w: w, id: i, client: newClient(w.t, w.config, i), random: source(i), known: map[string]object{}}
		all = append(all, one)
		working.Go(func() { one.run(ctx) })
	}
	for i := range manyReaders {
		working.Go(func() { w.readPages(ctx, newClient(w.t, w.config, i), source(100+i)) })
		working.Go(func() { w.readPast(ctx, newClient(w.t, w.config, i), source(150+i)) })
	}
	var fans []*follower
	for i := range manyFollowers {
		random := source(200 + i)
		f := &follower{w: w, id: i, client: newClient(w.t, w.config, i), selector: w.selector(random), random: random}
		fans = append(fans, f)
		watching.Go(func() { f.run(following) })
	}
	w.trouble(ctx)
	working.Wait()
	last := w.settle(newClient(w.t, w.config, 0))
	for _, f := range fans {
		w.eventually(fmt.Sprintf("%v comes from %d to %d", f, f.reached(), last), func() bool { return f.reached() >= last })
	}
	end()
	watching.Wait()
	w.judge(all, fans)
}

func (w *world) selector(random *rand.Rand) selector {
	s := selector{resource: resourceNames[random.IntN(len(resourceNames))], selects: func(fact) bool { return true }}
	group := fmt.Sprint(random.IntN(3))
	switch random.IntN(4) {
	case 0:
		s.labels, s.selects = "group="+group, func(f fact) bool { return f.group == group }
	case 1:
		s.labels, s.selects = "group!="+group, func(f fact) bool { return f.group != group }
	case 2:
		s.resource, s.fields, s.selects = "pods", "spec.nodeName=n1", func(f fact) bool { return f.node == "n1" }
	case 3:
		if s.resource == "pods" {
			s.fields, s.selects = "status.phase=Running", func(f fact) bool { return f.phase == "Running" }
		}
	}
	return s
}

// trouble makes everything happen that can.
func (w *world) trouble(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		switch w.random.IntN(12) {
		case 0:
			w.faults.Cut(store.ErrUnavailable)
		case 1:
			w.faults.Fail(faults.Writes, store.ErrUnavailable, 1+w.random.IntN(3))
		case 2: // the answer is lost, the write is not
			w.faults.Inject(faults.Rule{Ops: faults.Writes, Err: store.ErrUnavailable, Done: true, Times: 1 + w.random.IntN(3)})
		case 3:
			w.faults.Fail(faults.Reads, store.ErrUnavailable, 1+w.random.IntN(3))
		case 4:
			time.AfterFunc(time.Duration(w.random.IntN(20))*time.Millisecond, w.faults.Hold())
		case 5:
			w.faults.Inject(faults.Rule{Ops: faults.Writes, Delay: 2 * time.Millisecond, Times: 5})
		case 6, 7:
			w.compact(ctx, store.Revision(w.random.IntN(100)))
		case 8: // the log can't be resumed
			release := w.faults.Hold()
			time.Sleep(time.Duration(w.random.IntN(20)) * time.Millisecond)
			w.faults.Cut(store.ErrUnavailable)
			release()
		case 9, 10:
			w.network.cut(func() bool { return w.random.IntN(3) == 0 })
		case 11:
			if w.options.Data != "" && w.random.IntN(4) == 0 {
				w.restart()
			}
		}
		pause.Reset(time.Duration(20+w.random.IntN(60)) * time.Millisecond)
	}
}

// compact forgets what is so many revisions old, but nothing that the log has not told yet.
func (w *world) compact(ctx context.Context, age store.Revision) {
	rev := w.truth.at() - age
	if rev < 1 {
		return
	}
	if w.faults.Compact(ctx, rev) == nil {
		w.compactions++
	}
}

func (w *world) restart() {
	w.network.away.Store(true)
	if w.random.IntN(2) == 0 {
		w.network.cut(func() bool { return true })
	}
	w.stop()
	w.start()
	w.network.lead(strings.TrimPrefix(w.cluster.URL(), "https://"))
	w.network.away.Store(false)
	w.restarts++
}

// readPages writes, lists at once, and goes through pages while others write.
func (w *world) readPages(ctx context.Context, c *client, random *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		s := w.selector(random)
		o := resources["configmaps"].make()
		o.SetName(fmt.Sprintf("r%d-%d", random.Uint32(), n))
		o.SetAnnotations(map[string]string{valued: o.GetName()})
		done, err := c.create(ctx, "configmaps", o)
		if err != nil {
			continue
		}
		whole, ok := w.pages(ctx, c, s, int64(1+random.IntN(7)))
		if !ok {
			time.Sleep(again)
			continue
		}
		if written := revisionOf(done.GetResourceVersion()); whole.rev < written {
			w.t.Errorf("Linearizable: %v is listed at %d after a write at %d", s, whole.rev, written)
		}
		w.keep(lists{"One snapshot", s, whole.rev, whole.items})
		if err := c.delete(ctx, "configmaps", done); err != nil && !w.isTrouble(err) {
			w.t.Errorf("CAS: nobody else deletes %s: %v", done.GetName(), err)
		}
	}
}

// pages gathers the pages of a list.
func (w *world) pages(ctx context.Context, c *client, s selector, limit int64) (page, bool) {
	whole := page{items: map[string]version{}}
	o := metav1.ListOptions{Limit: limit}
	for {
		p, err := c.list(ctx, s, o)
		if err != nil {
			return page{}, false
		}
		if whole.rev == 0 {
			whole.rev = p.rev
		}
		if p.rev != whole.rev {
			w.t.Errorf("One snapshot: a page of %v at %d follows one at %d", s, p.rev, whole.rev)
			return page{}, false
		}
		for name, v := range p.items {
			if _, twice := whole.items[name]; twice {
				w.t.Errorf("One snapshot: %s is on two pages of %v", name, s)
			}
			whole.items[name] = v
		}
		if o.Continue = p.next; p.next == "" {
			return whole, true
		}
	}
}

// readPast reads states of the past, exactly and not older than.
func (w *world) readPast(ctx context.Context, c *client, random *rand.Rand) {
	for ctx.Err() == nil {
		s := w.selector(random)
		rev := max(1, w.truth.at()-store.Revision(random.IntN(200))+5)
		o := metav1.ListOptions{ResourceVersion: rev.String(), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
		exact := random.IntN(2) == 0
		if exact {
			o.ResourceVersionMatch = metav1.ResourceVersionMatchExact
		}
		p, err := c.list(ctx, s, o)
		switch {
		case err != nil:
			if !w.isTrouble(err) && !apierrors.IsResourceExpired(err) && ctx.Err() == nil {
				w.t.Errorf("%v at %d: %v", s, rev, err)
			}
			time.Sleep(again)
			continue
		case exact && p.rev != rev:
			w.t.Errorf("Exact: %v is asked for at %d and given at %d", s, rev, p.rev)
		case p.rev < rev:
			w.t.Errorf("NotOlderThan: %v is asked for at %d and given at %d", s, rev, p.rev)
		}
		w.keep(lists{"Exact and NotOlderThan", s, p.rev, p.items})
	}
}

// settle waits until everything works, and returns a revision that is not before any write.
func (w *world) settle(c *client) store.Revision {
	var last object
	w.eventually("a last write", func() bool {
		o := resources["configmaps"].make()
		o.SetGenerateName("last-")
		o.SetAnnotations(map[string]string{valued: "last"})
		var err error
		last, err = c.create(context.Background(), "configmaps", o)
		return err == nil
	})
	rev := revisionOf(last.GetResourceVersion())
	w.truth.wait(rev)
	for _, resource := range resourceNames {
		s := selector{resource: resource, selects: func(fact) bool { return true }}
		w.eventually("a last list of "+resource, func() bool {
			p, err := c.list(context.Background(), s, metav1.ListOptions{})
			if err == nil {
				w.keep(lists{"Acknowledged", s, p.rev, p.items})
			}
			return err == nil
		})
	}
	return rev
}

func (w *world) judge(all []*writer, fans []*follower) {
	var claims []claim
	for _, one := range all {
		claims = append(claims, one.claims...)
		w.truth.refused(one.refused)
	}
	w.truth.acknowledged(claims)
	for i, l := range w.lists {
		if i%(1+len(w.lists)/2000) == 0 || l.guarantee == "Acknowledged" { // a long run has more than the model can look at
			w.truth.listed(l.guarantee, l.selector, l.rev, l.items)
		}
	}
	events, stretches, watches, expired := 0, 0, 0, 0
	for _, f := range fans {
		events += f.judge(w.truth)
		stretches += len(f.stretches)
		expired += f.expired
		for _, s := range f.stretches {
			watches += s.watches
		}
	}
	w.t.Logf("%d changes, %d acknowledged; %d events in %d stretches over %d watches, %d expired; %d lists; %d restarts, %d compactions",
		len(w.truth.changes), len(claims), events, stretches, watches, expired, len(w.lists), w.restarts, w.compactions)
	if len(claims) == 0 || events == 0 || w.compactions == 0 || slices.Min([]int{stretches, watches, len(w.lists)}) == 0 {
		w.t.Error("the test shows too little")
	}
}

// eventually waits until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			w.t.Fatal("never: " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
