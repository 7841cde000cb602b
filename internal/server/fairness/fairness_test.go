package fairness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

func priority(name string, shares, lendable int32, queues, hand, length int32) *flowcontrolv1.PriorityLevelConfiguration {
	l := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: &lendable},
	}}
	l.Spec.Limited.LimitResponse.Type = flowcontrolv1.LimitResponseTypeReject
	if queues > 0 {
		l.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{
			Queues: queues, HandSize: hand, QueueLengthLimit: length,
		}}
	}
	return l
}

func schemaFor(name, level string, precedence int32, by flowcontrolv1.FlowDistinguisherMethodType, users ...string) *flowcontrolv1.FlowSchema {
	s := &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: precedence,
	}}
	if by != "" {
		s.Spec.DistinguisherMethod = &flowcontrolv1.FlowDistinguisherMethod{Type: by}
	}
	rules := flowcontrolv1.PolicyRulesWithSubjects{
		ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
	}
	for _, u := range users {
		rules.Subjects = append(rules.Subjects, flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: u}})
	}
	s.Spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{rules}
	return s
}

// dispatcher has ten seats in one level, with queues for users.
func dispatcher(queues, length int32) *Dispatcher {
	d := New(Options{Seats: 10})
	d.compile([]*flowcontrolv1.FlowSchema{schemaFor("all", "l", 100, flowcontrolv1.FlowDistinguisherMethodByUserType, "*")},
		[]*flowcontrolv1.PriorityLevelConfiguration{priority("l", 1000, 0, queues, min(queues, 4), length)})
	return d
}

func get(user string, groups ...string) *Request {
	return &Request{User: &auth.User{Name: user, Groups: groups}, Verb: "get", IsResource: true, Resource: "pods", Namespace: "n"}
}

// client asks again and again, so many at a time, and counts what it got.
func client(ctx context.Context, all *sync.WaitGroup, d *Dispatcher, user string, atATime int, takes time.Duration, served *atomic.Int64) {
	for range atATime {
		all.Go(func() {
			for ctx.Err() == nil {
				execution, err := d.Enter(ctx, d.Classify(get(user)), Work{Seats: 1}, nil)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				time.Sleep(takes)
				execution.End()
				served.Add(1)
			}
		})
	}
}

func TestOneWhoFloodsGetsNoMoreThanItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues, size = 64, 4
		d := dispatcher(queues, 200)
		one, another := strangers(d, queues, size)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var flood, other atomic.Int64
		client(ctx, &all, d, one, 300, 10*time.Millisecond, &flood)
		client(ctx, &all, d, another, 20, 10*time.Millisecond, &other)
		time.Sleep(10 * time.Second)
		stop()
		all.Wait()
		// Ten seats serve 1,000 requests a second.
		if f, o := flood.Load(), other.Load(); f+o < 9_500 || o < f*8/10 {
			t.Errorf("the flood had %d, the other %d", f, o)
		}
	})
}

func TestOneRequestIsServedAtOnceBesideAFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(64, 200)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var flood atomic.Int64
		client(ctx, &all, d, "flood", 190, 10*time.Millisecond, &flood)
		time.Sleep(time.Second)
		for i := range 100 {
			began := time.Now()
			execution, err := d.Enter(ctx, d.Classify(get("quiet")), Work{Seats: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited > 20*time.Millisecond {
				t.Errorf("request %d waited for %v", i, waited)
			}
			execution.End()
			time.Sleep(7 * time.Millisecond)
		}
		stop()
		all.Wait()
	})
}

// hand is the queues of a flow.
func hand(d *Dispatcher, user string, n, size int) map[int]bool {
	queues, out := make([]*queue, n), map[int]bool{}
	for i := range queues {
		queues[i] = &queue{}
	}
	for range size {
		at := deal(d.Classify(get(user)).number, queues, size)
		out[at], queues[at].seats = true, math.MaxInt32
	}
	return out
}

// strangers are two users whose flows share no queue. Of those who do, one is served less than half: queues share
// alike, and not flows.
func strangers(d *Dispatcher, n, size int) (a, b string) {
	for i := 0; ; i++ {
		a, b = fmt.Sprint("a", i), fmt.Sprint("b", i)
		of := hand(d, b, n, size)
		shared := false
		for at := range hand(d, a, n, size) {
			shared = shared || of[at]
		}
		if !shared {
			return a, b
		}
	}
}

func TestSeatsCountAndNotRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues, size = 64, 4
		d := dispatcher(queues, 200)
		one, five := strangers(d, queues, size)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var narrow, wide atomic.Int64
		client(ctx, &all, d, one, 50, 10*time.Millisecond, &narrow)
		for range 50 {
			all.Go(func() {
				for ctx.Err() == nil {
					if execution, err := d.Enter(ctx, d.Classify(get(five)), Work{Seats: 5}, nil); err == nil {
						time.Sleep(10 * time.Millisecond)
						execution.End()
						wide.Add(1)
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		stop()
		all.Wait()
		// If seats did not count, there would be as many of both.
		if n, w := narrow.Load(), wide.Load(); float64(n) < 3.5*float64(w) || float64(n) > 6.5*float64(w) {
			t.Errorf("%d narrow requests and %d of five seats", n, w)
		}
	})
}

func refusal(err error) string {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return fmt.Sprint(err)
}

func TestWhoCannotWaitIsRefusedWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(1, 2)
		enter := func(ctx context.Context) (Execution, error) {
			return d.Enter(ctx, d.Classify(get("u")), Work{Seats: 10}, nil)
		}
		first, err := enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		results := make(chan string, 2)
		cancelled, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), cancelled} {
			go func() {
				_, err := enter(ctx)
				results <- refusal(err)
			}()
		}
		synctest.Wait()
		if _, err := enter(t.Context()); refusal(err) != "queue-full" {
			t.Errorf("the third: %v", err)
		}
		cancel()
		if got := <-results; got != "cancelled" {
			t.Errorf("who went away: %s", got)
		}
		time.Sleep(d.o.QueueWait)
		if got := <-results; got != "time-out" {
			t.Errorf("who waited: %s", got)
		}
		first.End()
		last, err := enter(t.Context())
		if err != nil {
			t.Errorf("afterwards: %v", err)
		}
		last.End()
		if l := d.now.Load().find(get("u")).level; l.inUse+l.executing+l.waiting+l.waitingSeats+l.activeQueues != 0 {
			t.Errorf("something is left: %+v", l)
		}
	})
}

func TestALevelThatRejectsDoesNotQueue(t *testing.T) {
	d := dispatcher(0, 0)
	first, err := d.Enter(t.Context(), d.Classify(get("u")), Work{Seats: 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer first.End()
	if _, err := d.Enter(t.Context(), d.Classify(get("u")), Work{Seats: 1}, nil); refusal(err) != "concurrency-limit" {
		t.Errorf("%v", err)
	}
	for range 100 { // and administrators are never limited
		if _, err := d.Enter(t.Context(), d.Classify(get("root", auth.Masters)), Work{Seats: 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAChangeKeepsSeatsForThoseWhoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(8, 50)
		work := Work{Seats: 1, Final: 10, After: time.Second}
		execution, err := d.Enter(t.Context(), d.Classify(get("u")), work, nil)
		if err != nil {
			t.Fatal(err)
		}
		execution.End()
		began := time.Now()
		next, err := d.Enter(t.Context(), d.Classify(get("v")), Work{Seats: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("the next waited for %v", waited)
		}
		next.End()
	})
}

func TestSeatsThatNobodyNeedsAreLent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Seats: 100})
		d.compile([]*flowcontrolv1.FlowSchema{schemaFor("busy", "busy", 100, "", "b"), schemaFor("idle", "idle", 200, "", "i")},
			[]*flowcontrolv1.PriorityLevelConfiguration{priority("busy", 500, 0, 8, 4, 500), priority("idle", 500, 90, 8, 4, 500), priority(catchAllName, 1, 0, 0, 0, 0)})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var served atomic.Int64
		client(ctx, &all, d, "b", 300, 10*time.Millisecond, &served)
		current := func(name string) int {
			l := d.levels[name]
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.current
		}
		if n := current("busy"); n < 45 || n > 55 {
			t.Errorf("at first it has %d", n)
		}
		time.Sleep(borrowEvery)
		d.borrow()
		if busy, idle := current("busy"), current("idle"); busy < 85 || idle < 5 || busy+idle > 101 {
			t.Errorf("then busy has %d and idle %d", busy, idle)
		}
		var back atomic.Int64
		client(ctx, &all, d, "i", 300, 10*time.Millisecond, &back)
		time.Sleep(borrowEvery)
		d.borrow()
		if busy, idle := current("busy"), current("idle"); idle < 45 || busy < 45 {
			t.Errorf("when both are busy they have %d and %d", busy, idle)
		}
		stop()
		all.Wait()
	})
}

func TestAFlowAlwaysGetsTheSameHand(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	queues := make([]*queue, 64)
	for i := range queues {
		queues[i] = &queue{}
	}
	seen := map[int]bool{}
	for range 2000 {
		hash := random.Uint64()
		// The hand of a flow is found by filling the queue that it was given each time.
		var hand []int
		for range 6 {
			n := deal(hash, queues, 6)
			queues[n].waitingSeats = 1
			hand = append(hand, n)
			seen[n] = true
		}
		for _, n := range hand {
			queues[n].waitingSeats = 0
		}
		slices.Sort(hand)
		if len(slices.Compact(hand)) != 6 {
			t.Fatalf("a hand has %v", hand)
		}
	}
	if len(seen) != 64 {
		t.Errorf("only %d queues are used", len(seen))
	}
}

func TestRequestsBelongToTheFirstSchemaThatMatches(t *testing.T) {
	d := New(Options{})
	special := schemaFor("special", "l", 50, "")
	special.Spec.Rules = []flowcontrolv1.PolicyRulesWithSubjects{{
		Subjects: []flowcontrolv1.Subject{
			{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: "g"}},
			{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: "n", Name: "*"}},
		},
		ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
			Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods", "pods/status"}, Namespaces: []string{"n"},
		}},
		NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/metrics/*"}}},
	}}
	d.compile([]*flowcontrolv1.FlowSchema{schemaFor("all", "l", 100, "", "*"), special, schemaFor("lost", "nowhere", 2, "", "*")},
		[]*flowcontrolv1.PriorityLevelConfiguration{priority("l", 10, 0, 4, 2, 10)})
	in := func(change func(*Request)) *Request {
		r := get("u", "g")
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		request *Request
		want    string
	}{
		"a group":              {get("u", "g"), "special"},
		"an account":           {get("system:serviceaccount:n:a"), "special"},
		"another's account":    {get("system:serviceaccount:m:a"), "all"},
		"nobody of these":      {get("u"), "all"},
		"administrators":       {get("u", auth.Masters), "exempt"},
		"another verb":         {in(func(r *Request) { r.Verb = "list" }), "all"},
		"a subresource":        {in(func(r *Request) { r.Subresource = "status" }), "special"},
		"another subresource":  {in(func(r *Request) { r.Subresource = "log" }), "all"},
		"another namespace":    {in(func(r *Request) { r.Namespace = "m" }), "all"},
		"the cluster's scope":  {in(func(r *Request) { r.Namespace = "" }), "all"},
		"a path":               {in(func(r *Request) { r.IsResource, r.Path = false, "/healthz" }), "special"},
		"a path below another": {in(func(r *Request) { r.IsResource, r.Path = false, "/metrics/x" }), "special"},
		"another path":         {in(func(r *Request) { r.IsResource, r.Path = false, "/healthz/x" }), "all"},
	} {
		if got := d.Classify(c.request).schema.name; got != c.want {
			t.Errorf("%s belongs to %s, expected %s", name, got, c.want)
		}
	}
}

func TestWhoWaitsIsServedThoughTheConfigurationChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(8, 50)
		first, err := d.Enter(t.Context(), d.Classify(get("u")), Work{Seats: 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			execution, err := d.Enter(t.Context(), d.Classify(get("v")), Work{Seats: 1}, nil)
			if err == nil {
				execution.End()
			}
			done <- err
		}()
		synctest.Wait()
		d.compile(nil, nil) // the level is gone
		d.compile([]*flowcontrolv1.FlowSchema{schemaFor("all", "l", 100, "", "*")}, []*flowcontrolv1.PriorityLevelConfiguration{priority("l", 10, 0, 2, 1, 5)})
		first.End()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkFreeSeat(b *testing.B) {
	d := New(Options{})
	var schemas []*flowcontrolv1.FlowSchema
	for i := range 11 {
		schemas = append(schemas, schemaFor(fmt.Sprint("s", i), "l", int32(100+i), flowcontrolv1.FlowDistinguisherMethodByUserType, fmt.Sprint("u", i)))
	}
	d.compile(schemas, []*flowcontrolv1.PriorityLevelConfiguration{priority("l", 100, 50, 64, 6, 50)})
	r := get("u10", "system:authenticated")
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		execution, err := d.Enter(ctx, d.Classify(r), Work{Seats: 1}, nil)
		if err != nil {
			b.Fatal(err)
		}
		execution.End()
	}
}

func TestAServerThatHangsKeepsOnlyItsOwnRequestsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dispatcher(4, 2)
		const seats = 10
		enter := func(server string) (Execution, error) {
			return d.Enter(t.Context(), d.Classify(get("jane")), Work{Seats: 1, Server: server}, nil)
		}
		for range seats {
			e, err := enter("hangs.example")
			if err != nil {
				t.Fatal(err)
			}
			defer e.End()
		}
		for _, other := range []string{"", "other.example"} {
			began := time.Now()
			e, err := enter(other)
			if waited := time.Since(began); err != nil || waited > 0 {
				t.Errorf("a request to %q waited %v: %v", other, waited, err)
			}
			e.End()
		}
		_, err := enter("hangs.example")
		if refused := (*Refusal)(nil); !errors.As(err, &refused) || refused.Reason != "time-out" {
			t.Errorf("a request beyond the seats of the server that hangs: %v", err)
		}
	})
}
