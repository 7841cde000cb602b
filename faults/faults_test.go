package faults_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/faults"
)

// server answers every request with "done" and records it.
type server struct{ asked []string }

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	answer := httptest.NewRecorder()
	fmt.Fprint(answer, "done")
	return answer.Result(), nil
}

func send(t *testing.T, through http.RoundTripper, method, path string) (code int, body string, err error) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, "http://api"+path, nil)
	response, err := through.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

const pod = "/api/v1/namespaces/ns/pods/web"

func TestEachFaultDoesWhatItsCommentSays(t *testing.T) {
	for _, test := range []struct {
		fault  faults.Fault
		code   int
		asked  int
		failed bool
		after  time.Duration
	}{
		{faults.Error, 500, 0, false, 0},
		{faults.Conflict, 409, 0, false, 0},
		{faults.Busy, 429, 0, false, 0},
		{faults.Expire, 410, 0, false, 0},
		{faults.LostRequest, 0, 0, true, 0},
		{faults.LostAnswer, 0, 1, true, 0},
		{faults.Delay, 200, 1, false, time.Second},
		{faults.Hold, 200, 1, false, time.Second},
		{faults.Cut, 200, 1, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			through := faults.New(faults.Plan{Rules: []faults.Rule{{Nth: 1, Fault: test.fault}}}).Wrap(s)
			began := time.Now()
			code, _, err := send(t, through, "PUT", pod)
			if code != test.code || len(s.asked) != test.asked || (err != nil) != test.failed || time.Since(began) != test.after {
				t.Errorf("%s: code %d, error %v, asked %v, took %v", test.fault, code, err, s.asked, time.Since(began))
			}
			if err != nil && !errors.Is(err, faults.ErrInjected) {
				t.Errorf("%s: the error does not say that it is by plan: %v", test.fault, err)
			}
			if code, body, err := send(t, through, "PUT", pod); code != 200 || body != "done" || err != nil {
				t.Errorf("%s: the second request: %d %q %v", test.fault, code, body, err)
			}
		})
	}
}

func TestRulesSelectByVerbResourceAndName(t *testing.T) {
	for _, test := range []struct{ rule, method, path string }{
		{"error:get:pods:ns/web:*:#1", "GET", pod},
		{"error:list:pods:*:*:#1", "GET", "/api/v1/pods?limit=5"},
		{"error:watch:pods:*:*:#1", "GET", "/api/v1/namespaces/ns/pods?watch=true"},
		{"error:update:pods/status:ns/web:*:#1", "PUT", pod + "/status"},
		{"error:patch:deployments:ns/web:*:#1", "PATCH", "/apis/apps/v1/namespaces/ns/deployments/web"},
		{"error:create:nodes:*:*:#1", "POST", "/api/v1/nodes"},
		{"error:get:namespaces:ns:*:#1", "GET", "/api/v1/namespaces/ns"},
		{"error:update:namespaces/finalize:ns:*:#1", "PUT", "/api/v1/namespaces/ns/finalize"},
		{"error:delete:pods:ns/web:*:#1", "DELETE", pod},
		{"error:deletecollection:pods:*:*:#1", "DELETE", "/api/v1/namespaces/ns/pods"},
	} {
		plan, err := faults.Parse(test.rule)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, _ := send(t, faults.New(plan).Wrap(&server{}), test.method, test.path); code != 500 {
			t.Errorf("%s does not match %s %s", test.rule, test.method, test.path)
		}
		for _, path := range []string{"/api/v1/namespaces/ns/secrets/web", "/healthz"} {
			if code, _, _ := send(t, faults.New(plan).Wrap(&server{}), test.method, path); code != 200 {
				t.Errorf("%s matches %s", test.rule, path)
			}
		}
	}
}

// run sends requests about many objects, in an order that depends on shuffle, and returns which of them failed.
func run(t *testing.T, transport *faults.Transport, shuffle uint64) []string {
	through := transport.Wrap(&server{})
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/api/v1/namespaces/ns/pods/web-%d", i))
	}
	random := rand.New(rand.NewPCG(shuffle, 0))
	random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	var failed []string
	for range 3 {
		for _, path := range paths {
			if code, _, err := send(t, through, "PUT", path); code != 200 || err != nil {
				failed = append(failed, path)
			}
		}
	}
	slices.Sort(failed)
	return failed
}

func TestFaultsDependOnTheSeedAndNotOnTheOrderOfRequests(t *testing.T) {
	plan := faults.Plan{Seed: 5, Rules: []faults.Rule{{Verb: "update", Chance: 0.2, Fault: faults.Conflict}}}
	first := faults.New(plan)
	struck := run(t, first, 1)
	if len(struck) < 10 || len(struck) > 40 {
		t.Errorf("%d of 120 requests failed, at a chance of 0.2", len(struck))
	}
	if again := run(t, faults.New(plan), 2); !slices.Equal(struck, again) {
		t.Errorf("in another order %v failed, not %v", again, struck)
	}
	plan.Seed = 6
	if other := run(t, faults.New(plan), 1); slices.Equal(struck, other) {
		t.Error("another seed made the same requests fail")
	}
	line := first.Happened().String()
	parsed, err := faults.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if repeated := run(t, faults.New(parsed), 3); !slices.Equal(struck, repeated) {
		t.Errorf("the line %q made %v fail, not %v", line, repeated, struck)
	}
}

func TestAPlanCanBeParsedFromItsString(t *testing.T) {
	plan := faults.Plan{Seed: 9, Rules: []faults.Rule{
		{Verb: "watch", Resource: "pods", Fault: faults.Hold, For: 90 * time.Second, Chance: 0.25},
		{Name: "ns/web", Nth: 3, Fault: faults.LostAnswer},
		{Verb: "create", Nth: 1, Times: 2, Fault: faults.Crash},
	}}
	if parsed, err := faults.Parse(plan.String()); err != nil || !reflect.DeepEqual(parsed, plan) {
		t.Errorf("%q became %v, %v", plan, parsed, err)
	}
	for _, wrong := range []string{"seed=x", "error", "nonsense:*:*:*:*:#1", "error:*:*:*:*:often", "hold@x:*:*:*:*:1", "error:*:*:*:#1", "error:*:*:*:*:#1xoften"} {
		if _, err := faults.Parse(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestShrinkKeepsTheRulesThatMakeTheTestFail(t *testing.T) {
	var plan faults.Plan
	for i := range 50 {
		plan.Rules = append(plan.Rules, faults.Rule{Name: fmt.Sprint("pod-", i), Nth: 1, Fault: faults.Error})
	}
	runs := 0
	small := faults.Shrink(plan, func(p faults.Plan) bool {
		runs++
		line := p.String() + " "
		return strings.Contains(line, ":pod-7:") && strings.Contains(line, ":pod-31:")
	})
	if len(small.Rules) != 2 || small.Rules[0].Name != "pod-7" || small.Rules[1].Name != "pod-31" || runs > 100 {
		t.Errorf("after %d runs the plan is %q", runs, small)
	}
}

func TestARuleAppliesNoMoreOftenThanItSays(t *testing.T) {
	through := faults.New(faults.Plan{Rules: []faults.Rule{{Chance: 1, Times: 2, Fault: faults.Error}}}).Wrap(&server{})
	failed := 0
	for range 5 {
		if code, _, err := send(t, through, "GET", pod); code == 500 && err == nil {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d requests failed", failed)
	}
}

func TestTheServerIsAwayAsLongAsATestWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := faults.New(faults.Plan{})
		through := transport.Wrap(&server{})
		transport.Down(time.Minute)
		if _, _, err := send(t, through, "GET", pod); !errors.Is(err, faults.ErrInjected) {
			t.Errorf("it is there: %v", err)
		}
		time.Sleep(time.Minute)
		if code, _, err := send(t, through, "GET", pod); code != 200 || err != nil {
			t.Errorf("it is still away: %d %v", code, err)
		}
	})
}

func TestAHealedTransportHasNoFaults(t *testing.T) {
	transport := faults.New(faults.Plan{Rules: []faults.Rule{{Chance: 1, Fault: faults.Error}}})
	transport.Heal()
	if code, _, err := send(t, transport.Wrap(&server{}), "GET", pod); code != 200 || err != nil {
		t.Errorf("%d %v", code, err)
	}
}

func TestNamesWithColonsCanBeParsed(t *testing.T) {
	want := faults.Plan{Seed: 3, Rules: []faults.Rule{{Resource: "clusterroles", Name: "system:node", User: "system:serviceaccount:ns:web", Nth: 2, Fault: faults.Error}}}
	got, err := faults.Parse(want.String())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s became %+v (%v)", want, got, err)
	}
}

func TestRulesSelectByUser(t *testing.T) {
	transport := faults.New(faults.Plan{Rules: []faults.Rule{{User: "operator", Nth: 1, Fault: faults.Error}}})
	if code, _, _ := send(t, transport.WrapAs("somebody")(&server{}), "PUT", pod); code != 200 {
		t.Errorf("somebody else got %d", code)
	}
	if code, _, _ := send(t, transport.WrapAs("operator")(&server{}), "PUT", pod); code != 500 {
		t.Errorf("the operator got %d", code)
	}
}

func TestAFullStoreRejectsOnlyWrites(t *testing.T) {
	transport := faults.New(faults.Plan{Rules: []faults.Rule{{Chance: 1, Fault: faults.Full}}})
	through := transport.Wrap(&server{})
	if code, _, _ := send(t, through, "GET", pod); code != 200 {
		t.Errorf("a read got %d", code)
	}
	if code, body, _ := send(t, through, "PUT", pod); code != 500 || !strings.Contains(body, "database space exceeded") {
		t.Errorf("a write got %d %s", code, body)
	}
}

// endless is a server whose watches never end by themselves.
type endless struct{ server }

func (s *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		return s.server.RoundTrip(r)
	}
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { writer.CloseWithError(context.Cause(r.Context())) })
	return &http.Response{StatusCode: 200, Body: reader, Request: r}, nil
}

func TestARestartOfTheServerCutsWatchesAndBlocksRequestsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := faults.New(faults.Plan{Rules: []faults.Rule{{Verb: "update", Nth: 1, Fault: faults.Down, For: 5 * time.Second}}})
		through := transport.Wrap(&endless{})
		watched := make(chan error, 1)
		go func() {
			_, _, err := send(t, through, "GET", "/api/v1/pods?watch=true")
			watched <- err
		}()
		synctest.Wait()
		if _, _, err := send(t, through, "PUT", pod); err == nil {
			t.Error("the request that met the restart was answered")
		}
		if err := <-watched; !errors.Is(err, faults.ErrInjected) {
			t.Errorf("the watch ended with %v", err)
		}
		time.Sleep(4 * time.Second)
		if _, _, err := send(t, through, "GET", pod); err == nil {
			t.Error("a request was answered while the server was away")
		}
		time.Sleep(2 * time.Second)
		if code, _, err := send(t, through, "GET", pod); code != 200 {
			t.Errorf("after the restart: %d %v", code, err)
		}
	})
}

func TestACrashedProgramIsRestartedAndWritesNothingMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		transport := faults.New(faults.Plan{Rules: []faults.Rule{{Verb: "update", Nth: 1, Fault: faults.Crash}}})
		through := transport.Wrap(s)
		starts := 0
		err := transport.Run(t.Context(), func(ctx context.Context) error {
			starts++
			for range 3 {
				_, _, err := send(t, through, "PUT", pod)
				if err == nil {
					return nil
				}
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil || starts != 2 || len(s.asked) != 2 {
			t.Errorf("%d starts, the server was asked %v, error %v", starts, s.asked, err)
		}
	})
}
