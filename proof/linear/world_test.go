package linear_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/seam"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/storetest"
	"github.com/millrace/millrace/proof/internal/etcdtest"
)

var duration = flag.Duration("duration", 3*time.Second, "how long each random test works")

const (
	manyServers = 2
	manyClients = 6
	// round is how long clients work on the same names. Then their history is checked, which takes the longer the more
	// of it there is.
	round = 3 * time.Second
	// checkTimeout bounds the check of one history. One that takes longer is not decided, which is no mistake of the
	// server.
	checkTimeout = 5 * time.Second
)

// server is one of the API servers. It is killed and started again.
type server struct {
	options millrace.Options
	now     atomic.Pointer[incarnation] // nil while it is down
}

// incarnation is a server from its start to its end.
type incarnation struct {
	cluster *millrace.Cluster
	client  rest.Interface
	faults  *faults.Store
	log     *storetest.LateLog
}

// world is the servers on one etcd, and the history of what clients have done.
type world struct {
	t       *testing.T
	random  *rand.Rand // of the faults
	servers []*server
	began   time.Time
	prefix  string // of the keys whose writes have faults

	mu      sync.Mutex // guards everything below
	history map[string][]porcupine.Operation
	lost    int
}

// newWorld starts the servers. The first runs the loops.
func newWorld(t *testing.T, seed uint64, prefix string, loops ...string) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 1000)), began: time.Now(), prefix: prefix}
	etcd := etcdtest.Start(t)
	for i := range manyServers {
		o := millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true, CompactEvery: -1}
		o.Etcd.Servers = []string{etcd}
		if i == 0 {
			o.Controllers = append(o.Controllers, loops...)
		}
		s := &server{options: o}
		w.servers = append(w.servers, s)
		w.start(s)
		t.Cleanup(func() { _ = s.now.Load().cluster.Close() })
	}
	return w
}

func (w *world) start(s *server) {
	one := &incarnation{}
	ctx := seam.Around(context.Background(), func(inner store.Store) store.Store {
		one.faults = faults.Wrap(inner)
		one.log = storetest.NewLateLog(one.faults)
		return one.log
	})
	var err error
	if one.cluster, err = millrace.Start(ctx, s.options); err != nil {
		w.t.Fatal(err)
	}
	config := one.cluster.Config()
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	one.client = kube.CoreV1().RESTClient()
	s.now.Store(one)
}

// kill ends a server as a crash would: it does not reach the store any more. Then it is started again.
func (w *world) kill(s *server) {
	one := s.now.Swap(nil)
	one.faults.Down()
	_ = one.cluster.Close() // it complains about the store
	w.start(s)
}

// live lets clients work on a round's names, with faults, until the round has ended.
func (w *world) live(ctx context.Context, seed uint64, step func(*client)) {
	w.history, w.lost = map[string][]porcupine.Operation{}, 0
	ctx, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	var working sync.WaitGroup
	for id := range manyClients {
		c := &client{world: w, id: id, random: rand.New(rand.NewPCG(seed, uint64(id)))}
		working.Go(func() {
			for ctx.Err() == nil {
				if c.server = w.servers[c.random.IntN(manyServers)].now.Load(); c.server != nil {
					step(c)
				}
			}
		})
	}
	w.injectFaults(ctx)
	working.Wait()
}

func (w *world) injectFaults(ctx context.Context) {
	for ctx.Err() == nil {
		one := w.servers[w.random.IntN(manyServers)]
		now := one.now.Load()
		pause := time.Duration(w.random.IntN(200)) * time.Millisecond
		switch w.random.IntN(12) {
		case 0:
			w.kill(one)
		case 1, 2:
			now.faults.Inject(faults.Rule{Ops: faults.Writes, Prefix: w.prefix, Err: store.ErrUnavailable, Done: true, Times: 1})
		case 3, 4:
			now.log.Delay(pause)
		case 5, 6, 7:
			now.faults.Inject(faults.Rule{Ops: faults.Create, Prefix: w.prefix, Delay: pause, Times: 2})
		default:
			release := now.log.Hold()
			sleep(ctx, pause)
			release()
		}
		sleep(ctx, pause/2)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// check compares the history of each key with the model.
func (w *world) check(model porcupine.Model) {
	w.t.Helper()
	operations := 0
	for key, history := range w.history {
		operations += len(history)
		result, found := porcupine.CheckOperationsVerbose(model, history, checkTimeout)
		switch result {
		case porcupine.Illegal:
			w.t.Errorf("the history of %s is not linearizable:\n%s", key, explain(model, history, found))
		case porcupine.Unknown:
			w.t.Logf("whether the history of %s is linearizable is not decided after %v", key, checkTimeout)
		}
	}
	w.t.Logf("%d operations on %d keys, of which %d lost their answers", operations, len(w.history), w.lost)
	if operations == 0 {
		w.t.Error("the test shows nothing")
	}
}

// shown is how many operations are shown before the state in which none of the others can come next.
const shown = 15

// explain shows the end of the longest order of a part of the operations that the model allows, the state after it, and
// the operations that the model does not allow there.
func explain(model porcupine.Model, history []porcupine.Operation, found porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, partition := range found.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	state, text := model.Init(), strings.Builder{}
	for i, o := range longest {
		_, state = model.Step(state, o.Input, o.Output)
		if i >= len(longest)-shown {
			fmt.Fprintf(&text, "%s\n\tnow %+v\n", line(o), state)
		}
	}
	text.WriteString("then none of\n")
	last := int64(math.MaxInt64)
	rest := slices.DeleteFunc(slices.Clone(history), func(o porcupine.Operation) bool { return slices.Contains(longest, o) })
	for _, o := range rest {
		last = min(last, o.Return)
	}
	for _, o := range rest {
		if o.Call <= last {
			fmt.Fprintln(&text, line(o))
		}
	}
	return text.String()
}

func line(o porcupine.Operation) string {
	until := "?"
	if o.Return != math.MaxInt64 {
		until = time.Duration(o.Return).String()
	}
	return fmt.Sprintf("%v to %s, client %d: %+v → %+v", time.Duration(o.Call), until, o.ClientId, o.Input, o.Output)
}

// client sends one request after the other, each to any of the servers.
type client struct {
	*world
	id     int
	random *rand.Rand
	server *incarnation
	count  int
}

// value returns one that nobody has used before.
func (c *client) value() string {
	c.count++
	return fmt.Sprintf("%d-%d", c.id, c.count)
}

// begin returns what records an operation of which a request is about to be sent.
func (c *client) begin(input any) func(output any, lost bool, keys ...string) {
	call := time.Since(c.began)
	return func(output any, lost bool, keys ...string) {
		o := porcupine.Operation{ClientId: c.id, Input: input, Output: output, Call: int64(call), Return: int64(time.Since(c.began))}
		c.mu.Lock()
		defer c.mu.Unlock()
		if lost {
			o.Return = math.MaxInt64
			c.lost++
		}
		for _, key := range keys {
			c.history[key] = append(c.history[key], o)
		}
	}
}

// outcome is what the answer to a request says.
type outcome string

const (
	ok       outcome = "ok"
	lost     outcome = "lost" // it may have taken effect, or may do so later
	notFound outcome = "not found"
	exists   outcome = "exists already"
	conflict outcome = "conflict"
	refused  outcome = "refused"
)

func (c *client) outcomeOf(err error) outcome {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return ok
	case !errors.As(err, &status):
		return lost
	case apierrors.IsNotFound(err):
		return notFound
	case apierrors.IsAlreadyExists(err):
		return exists
	case apierrors.IsConflict(err):
		return conflict
	case apierrors.IsForbidden(err):
		return refused
	}
	if code := status.Status().Code; code < 499 && code != http.StatusTooManyRequests {
		c.t.Errorf("a request is answered with %v", err)
	}
	return lost
}

// request is one try: a second one could find what a lost first one has done.
func request(r *rest.Request) *rest.Request { return r.MaxRetries(0) }
