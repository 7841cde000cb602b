package faults

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrInjected is wrapped by the errors of requests that fail by plan.
var ErrInjected = errors.New("injected fault")

// Transport injects the faults of a plan. It is safe for use by several goroutines and several clients. New returns
// one.
type Transport struct {
	plan Plan

	mu       sync.Mutex
	counts   map[subject]int // guarded by mu: how many requests each subject had
	applied  []int           // guarded by mu: how often each rule of the plan has applied
	happened []Rule          // guarded by mu
	healed   bool            // guarded by mu
	downTill time.Time       // guarded by mu: no request reaches the server until then
	crashed  bool            // guarded by mu: the client has crashed and was not restarted yet
	onCrash  func()          // guarded by mu: notifies Run; may be nil

	// watches has the open watches with the functions that end them. Guarded by mu.
	watches map[*watching]context.CancelCauseFunc
}

// New returns a transport for a plan.
func New(plan Plan) *Transport {
	return &Transport{plan: plan, counts: map[subject]int{}, applied: make([]int, len(plan.Rules)), watches: map[*watching]context.CancelCauseFunc{}}
}

// Wrap returns a round tripper around next. Pass this method to rest.Config.Wrap.
func (t *Transport) Wrap(next http.RoundTripper) http.RoundTripper { return &tripper{t, "", next} }

// WrapAs is Wrap for one of several clients. Rules select it by its name.
func (t *Transport) WrapAs(user string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &tripper{t, user, next} }
}

// Happened returns the plan of exactly those faults that have occurred so far. With the same requests it causes the
// same faults.
func (t *Transport) Happened() Plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Plan{Seed: t.plan.Seed, Rules: append([]Rule(nil), t.happened...)}
}

// Heal stops all faults, so that the state that a test expects can be reached.
func (t *Transport) Heal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.healed = true
}

// strike returns the fault for a request, if there is one.
func (t *Transport) strike(s subject) (Rule, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.healed {
		return Rule{}, false
	}
	t.counts[s]++
	nth := t.counts[s]
	for i, r := range t.plan.Rules {
		if !r.matches(s) || r.Nth != 0 && r.Nth != nth || r.Nth == 0 && t.chance(i, s, nth) >= r.Chance {
			continue
		}
		if t.applied[i]++; r.Times > 0 && t.applied[i] > r.Times {
			continue
		}
		struck := Rule{Verb: s.verb, Resource: s.resource, Name: s.name, User: s.user, Nth: nth, For: r.For, Fault: r.Fault}
		t.happened = append(t.happened, struck)
		return struck, true
	}
	return Rule{}, false
}

// chance returns a number from 0 to 1 that depends only on the seed, the rule, the subject and the count.
func (t *Transport) chance(rule int, s subject, nth int) float64 {
	h := fnv.New64a()
	fmt.Fprint(h, t.plan.Seed, rule, s, nth)
	sum := binary.BigEndian.Uint64(h.Sum(nil))
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return float64(sum>>11) / (1 << 53)
}

// tripper is a round tripper with faults.
type tripper struct {
	faults *Transport
	user   string
	next   http.RoundTripper
}

// WrappedRoundTripper gives client-go access to the inner transport, which it configures.
func (t *tripper) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	s := subjectOf(r)
	s.user = cmp.Or(r.Header.Get("Impersonate-User"), t.user)
	if err := t.faults.reachable(); err != nil {
		return nil, err
	}
	rule, struck := t.faults.strike(s)
	if !struck {
		return t.send(r, s)
	}
	if status := rule.status(s); status != nil {
		return answer(r, status), nil
	}
	switch rule.Fault {
	case LostRequest:
		return nil, rule.failure()
	case CrashBefore:
		t.faults.crash(rule)
		return nil, rule.failure()
	case Down:
		t.faults.restart(rule)
		return nil, rule.failure()
	case Delay:
		if err := pause(r.Context(), rule.lasts()); err != nil {
			return nil, err
		}
		return t.send(r, s)
	}
	response, err := t.send(r, s)
	if err != nil {
		return nil, err
	}
	switch rule.Fault {
	case LostAnswer, Crash:
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // so that the server has processed it
		_ = response.Body.Close()
		if rule.Fault == Crash {
			t.faults.crash(rule)
		}
		return nil, rule.failure()
	case Cut:
		response.Body = &cut{ReadCloser: response.Body, left: 1, rule: rule}
	case Hold:
		response.Body = &held{ReadCloser: response.Body, ctx: r.Context(), lasts: rule.lasts()}
	}
	return response, nil
}

// send sends a request to the server. A watch ends when the server restarts or the client crashes.
func (t *tripper) send(r *http.Request, s subject) (*http.Response, error) {
	if s.verb != "watch" {
		return t.next.RoundTrip(r)
	}
	ctx, end := context.WithCancelCause(r.Context())
	w := &watching{faults: t.faults}
	if err := t.faults.opened(w, end); err != nil {
		end(err)
		return nil, err
	}
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		t.faults.closed(w)
		return nil, err
	}
	w.ReadCloser = response.Body
	response.Body = w
	return response, nil
}

// watching is the body of a watch.
type watching struct {
	io.ReadCloser
	faults *Transport
}

// Close implements io.Closer.
func (w *watching) Close() error {
	w.faults.closed(w)
	return w.ReadCloser.Close()
}

func (r Rule) failure() error { return fmt.Errorf("%w: %s", ErrInjected, r) }

func (r Rule) lasts() time.Duration {
	if r.For > 0 {
		return r.For
	}
	return time.Second
}

// status returns the answer of those faults that are an answer.
func (r Rule) status(s subject) *metav1.Status {
	var err *apierrors.StatusError
	resource := schema.GroupResource{Resource: s.resource}
	switch r.Fault {
	case Error:
		err = apierrors.NewInternalError(r.failure())
	case Conflict:
		err = apierrors.NewConflict(resource, s.name, r.failure())
	case Busy:
		err = apierrors.NewTooManyRequests(r.failure().Error(), 1)
	case Full:
		err = apierrors.NewInternalError(errors.New("etcdserver: mvcc: database space exceeded"))
	case Expire:
		err = apierrors.NewResourceExpired(r.failure().Error())
	default:
		return nil
	}
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return &err.ErrStatus
}

// answer makes a response without a server.
func answer(r *http.Request, status *metav1.Status) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	body, _ := json.Marshal(status) // it can always be encoded
	header := http.Header{"Content-Type": {"application/json"}}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return &http.Response{
		Status: http.StatusText(int(status.Code)), StatusCode: int(status.Code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// cut is a body that ends after some reads.
type cut struct {
	io.ReadCloser
	left int
	rule Rule
}

// Read implements io.Reader.
func (c *cut) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, c.rule.failure())
	}
	c.left--
	return c.ReadCloser.Read(b[:min(len(b), 512)])
}

// held is a body whose first read is delayed.
type held struct {
	io.ReadCloser
	ctx   context.Context
	lasts time.Duration
	once  sync.Once
}

// Read implements io.Reader.
func (h *held) Read(b []byte) (int, error) {
	var err error
	h.once.Do(func() { err = pause(h.ctx, h.lasts) })
	if err != nil {
		return 0, err
	}
	return h.ReadCloser.Read(b)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
