package clients_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/watchcache"
)

// raw sends requests to a house.
func (h *house) raw(t testing.TB) caller {
	config := *h.config
	config.WrapTransport = nil
	return callerOf(t, &config)
}

func TestAFullServerSaysWhenToComeAgain(t *testing.T) {
	h := newHouse(t, watchcache.Options{}, nil, func(o *apiserver.Options) { o.MaxInFlight, o.MaxMutatingInFlight = 1, 1 })
	gate := make(chan struct{})
	remove := h.faults.Inject(faults.Rule{Ops: faults.Create, Gate: gate})
	var held sync.WaitGroup
	held.Go(func() {
		if got := h.raw(t).send(t, "POST", mapsPath, `{"metadata":{"name":"held"}}`); got.code != http.StatusCreated {
			t.Errorf("%d %s", got.code, got.body)
		}
	})
	eventually(t, "one is held", func() bool { return h.faults.Calls(faults.Create) > 0 })
	got := h.raw(t).send(t, "POST", mapsPath, `{"metadata":{"name":"more"}}`)
	if got.code != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %v %s", got.code, got.header, got.body)
	}
	if got := h.raw(t).send(t, "GET", mapsPath, ""); got.code != http.StatusOK {
		t.Errorf("reading is not writing: %d", got.code)
	}
	close(gate)
	held.Wait()
	remove()
	if got := h.raw(t).send(t, "POST", mapsPath, `{"metadata":{"name":"more"}}`); got.code != http.StatusCreated {
		t.Errorf("afterwards: %d %s", got.code, got.body)
	}
}

// trickle is a body that never ends.
type trickle struct{ ctx context.Context }

func (t trickle) Read(p []byte) (int, error) {
	<-t.ctx.Done()
	return 0, t.ctx.Err()
}

func TestASlowBodyDoesNotKeepItsPlace(t *testing.T) {
	h := newHouse(t, watchcache.Options{}, nil, func(o *apiserver.Options) { o.MaxMutatingInFlight, o.RequestTimeout = 1, 300*time.Millisecond })
	for _, two := range []bool{true, false} {
		config := *h.config
		if !two {
			config.TLSClientConfig.NextProtos = []string{"http/1.1"}
		}
		c := callerOf(t, &config)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r := must(http.NewRequestWithContext(ctx, "POST", c.host+mapsPath, io.MultiReader(strings.NewReader(`{"metadata":`), trickle{ctx})))(t)
		r.ContentLength = 1000
		r.Header.Set("Content-Type", "application/json")
		res, err := c.RoundTrip(r)
		if err == nil {
			if res.StatusCode != http.StatusRequestTimeout || res.ProtoMajor == 2 != two {
				t.Errorf("%s %s", res.Proto, res.Status)
			}
		} else if ctx.Err() != nil {
			t.Errorf("HTTP/2 %v: %v", two, err)
		}
		cancel() // before the body is closed: the transport waits until the request's body has been read
		if err == nil {
			res.Body.Close()
		}
		if got := h.raw(t).send(t, "POST", mapsPath, `{"metadata":{"generateName":"next-"}}`); got.code != http.StatusCreated {
			t.Errorf("the next one: %d %s", got.code, got.body)
		}
	}
}

func TestAStoreThatHangsEndsRequestsNotTheServer(t *testing.T) {
	h := newHouse(t, watchcache.Options{}, nil, func(o *apiserver.Options) { o.RequestTimeout = 200 * time.Millisecond })
	remove := h.faults.Inject(faults.Rule{Gate: make(chan struct{})})
	for _, x := range [][3]string{{"POST", mapsPath, `{"metadata":{"name":"x"}}`}, {"GET", mapsPath, ""}, {"DELETE", mapsPath + "/x", ""}} {
		got := h.raw(t).send(t, x[0], x[1], x[2])
		if got.code != http.StatusGatewayTimeout && got.code != http.StatusServiceUnavailable {
			t.Errorf("%v: %d %s", x, got.code, got.body)
		}
	}
	if got := h.raw(t).send(t, "GET", mapsPath+"?resourceVersion=0", ""); got.code != http.StatusOK {
		t.Errorf("what may be old is there: %d %s", got.code, got.body)
	}
	remove()
	if got := h.raw(t).send(t, "POST", mapsPath, `{"metadata":{"name":"x"}}`); got.code != http.StatusCreated {
		t.Errorf("afterwards: %d %s", got.code, got.body)
	}
}

// panicking is an action that panics.
type panicking struct{}

func (panicking) Act(context.Context, *apiserver.ActionCall) (runtime.Object, int, error) {
	panic("on purpose")
}

func TestAPanicHurtsNobodyElse(t *testing.T) {
	h := newHouse(t, watchcache.Options{}, nil, func(o *apiserver.Options) {
		o.Actions = map[string]apiserver.Action{"pods/eviction": panicking{}}
		o.Extra = map[string]http.Handler{"/breaks": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("on purpose") })}
	})
	k := must(kubernetes.NewForConfig(h.config))(t)
	w := must(k.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{}))(t)
	defer w.Stop()
	must(k.CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}))(t)
	for range 5 {
		for _, x := range [][3]string{{"POST", "/api/v1/namespaces/default/pods/p/eviction", `{"metadata":{"name":"p"}}`}, {"GET", "/breaks", ""}} {
			if got := h.raw(t).send(t, x[0], x[1], x[2]); got.code != http.StatusInternalServerError || !strings.Contains(got.body, `"kind":"Status"`) {
				t.Errorf("%v: %d %s", x, got.code, got.body)
			}
		}
	}
	must(k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a", nil), metav1.CreateOptions{}))(t)
	if e := next(t, w); e.Type != "ADDED" {
		t.Errorf("%v", e)
	}
	if r, c := h.api.InFlight(); r+c != 0 {
		t.Errorf("%d places are still taken", r+c)
	}
}

func TestConnectionsThatAreCutInTheMiddleOfAnswersAreForgotten(t *testing.T) {
	h := newHouse(t, watchcache.Options{}, nil, nil)
	client := h.client(t)
	for i := range 20 {
		m := configMap(fmt.Sprint("big", i), nil)
		m.Data["k"] = strings.Repeat("x", 300_000)
		must(client.Create(t.Context(), m, metav1.CreateOptions{}))(t)
	}
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		r := must(http.NewRequestWithContext(ctx, "GET", h.config.Host+mapsPath, nil))(t)
		res := must(h.raw(t).RoundTrip(r))(t)
		_, _ = io.CopyN(io.Discard, res.Body, 100_000)
		cancel()
		res.Body.Close()
	}
	eventually(t, "all have ended", func() bool { r, c := h.api.InFlight(); return r+c == 0 })
}
