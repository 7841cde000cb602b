// Package guarantees_test lets writers, readers and watchers use a cluster while its store fails, its connections are
// cut and the server restarts. Then it compares what each of them received with the store's log.
package guarantees_test

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

	"github.com/millrace/millrace/internal/randomly"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/proof/internal/network"
)

var duration = flag.Duration("duration", 3*time.Second, "how long the random test works on each kind of store")

// world is a cluster with faults, and its clients.
type world struct {
	t       *testing.T
	options millrace.Options
	random  *rand.Rand
	network *network.Proxy
	config  *rest.Config
	truth   *logModel

	reading sync.WaitGroup // readers of the log of the present cluster

	// Only the goroutine that injects faults uses these.
	cluster               *millrace.Cluster
	faults                *faults.Store
	restarts, compactions int

	mu    sync.Mutex // guards lists
	lists []lists
}

// lists is one state that a client received.
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
// connections are cut and the server is restarted. Then it compares what each of them received with the store's log.
func TestGuaranteesHoldWhateverHappens(t *testing.T) {
	for name, options := range map[string]func(*testing.T) millrace.Options{
		"memory": func(*testing.T) millrace.Options { return millrace.Options{Uncached: []string{"secrets"}} },
		"log": func(t *testing.T) millrace.Options {
			return millrace.Options{Data: t.TempDir(), Uncached: []string{"secrets"}}
		},
		"log without a cache": func(t *testing.T) millrace.Options {
			return millrace.Options{Data: t.TempDir(), Uncached: []string{"*"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := randomly.Seed(t)
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
	w := &world{t: t, random: rand.New(rand.NewPCG(begin, 1000)), truth: newTruth(t), options: o}
	w.start()
	w.network = network.New(t, strings.TrimPrefix(w.cluster.URL(), "https://"))
	w.config = w.cluster.Config()
	w.config.Host = "https://" + w.network.Address()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts the server, anew or for the first time.
func (w *world) start() {
	ctx := seam.Around(context.Background(), func(s store.Store) store.Store {
		w.faults = faults.Wrap(s)
		return w.faults
	})
	c, err := millrace.Start(ctx, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cluster = c
	log := w.faults
	w.reading.Go(func() { w.truth.follow(context.Background(), log) })
}

func (w *world) stop() {
	if err := w.cluster.Close(); err != nil {
		w.t.Error(err)
	}
	w.reading.Wait()
}

// These run at the same time.
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
	w.injectFaults(ctx)
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
	s := selector{resource: resourceNames[random.IntN(len(resourceNames))], selects: func(content) bool { return true }}
	group := fmt.Sprint(random.IntN(3))
	switch random.IntN(4) {
	case 0:
		s.labels, s.selects = "group="+group, func(f content) bool { return f.group == group }
	case 1:
		s.labels, s.selects = "group!="+group, func(f content) bool { return f.group != group }
	case 2:
		s.resource, s.fields, s.selects = "pods", "spec.nodeName=n1", func(f content) bool { return f.node == "n1" }
	case 3:
		if s.resource == "pods" {
			s.fields, s.selects = "status.phase=Running", func(f content) bool { return f.phase == "Running" }
		}
	}
	return s
}

// settle waits until everything works, and returns a revision after all writes.
func (w *world) settle(c *client) store.Revision {
	var last object
	w.eventually("a last write", func() bool {
		o := resources["configmaps"].make()
		o.SetGenerateName("last-")
		o.SetAnnotations(map[string]string{valueAnnotation: "last"})
		var err error
		last, err = c.create(context.Background(), "configmaps", o)
		return err == nil
	})
	rev := revisionOf(last.GetResourceVersion())
	w.truth.wait(rev)
	for _, resource := range resourceNames {
		s := selector{resource: resource, selects: func(content) bool { return true }}
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
	var claims []writeResult
	for _, one := range all {
		claims = append(claims, one.claims...)
		w.truth.refused(one.refused)
	}
	w.truth.acknowledged(claims)
	for i, l := range w.lists {
		if i%(1+len(w.lists)/2000) == 0 || l.guarantee == "Acknowledged" { // a long run has more lists than the model can check
			w.truth.listed(l.guarantee, l.selector, l.rev, l.items)
		}
	}
	events, stretches, watches, expired := 0, 0, 0, 0
	for _, f := range fans {
		events += f.compareWith(w.truth)
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
