package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/answer"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource"
)

// permits is an authenticator and an authorizer for one user with given permissions.
type permits struct {
	user    auth.User
	failure error
	verdict func(auth.Attributes) auth.Verdict
	asked   []auth.Attributes
}

func (p *permits) Authenticate(*http.Request) (auth.User, error) { return p.user, p.failure }

func (p *permits) Authorize(_ context.Context, a auth.Attributes) auth.Verdict {
	p.asked = append(p.asked, a)
	return p.verdict(a)
}

func (p *permits) Rules(context.Context, auth.User, string) auth.Rules { return auth.Rules{} }

func callFor(p *permits, method, path string) *call {
	s := &Server{o: Options{Authenticate: p, Authorize: p}, log: slog.New(slog.DiscardHandler),
		reading: make(chan struct{}, 1), changing: make(chan struct{}, 1), identifying: make(chan struct{}, 1)}
	r := httptest.NewRequest(method, path, nil)
	c := &call{s: s, meter: noMetrics{}, Answer: answer.Answer{Within: r.Context(), Request: r, Writer: &answer.Response{ResponseWriter: httptest.NewRecorder()}}}
	if c.t, c.isResource = parseTarget(r.URL.Path); c.isResource {
		c.verb = c.verbOf()
	} else {
		c.verb = "get"
	}
	return c
}

func TestStagesRunInOrderUntilOneRefuses(t *testing.T) {
	var came []string
	note := func(name string, err error) stage {
		return func(c *call, next handler) error {
			if came = append(came, name); err != nil {
				return err
			}
			return next(c)
		}
	}
	refused := errors.New("refused")
	last := func(*call) error { came = append(came, "last"); return nil }
	if err := chain(last, note("a", nil), note("b", nil))(nil); err != nil || !slices.Equal(came, []string{"a", "b", "last"}) {
		t.Errorf("%v, %v", came, err)
	}
	came = nil
	if err := chain(last, note("a", nil), note("b", refused), note("c", nil))(nil); err != refused || !slices.Equal(came, []string{"a", "b"}) {
		t.Errorf("%v, %v", came, err)
	}
}

func TestInvalidCredentialsAre401AndAFailureToCheckThemIs503(t *testing.T) {
	for _, c := range []struct {
		failure error
		code    int32
	}{{errors.Join(auth.ErrUnauthorized, errors.New("expired")), 401}, {fmt.Errorf("webhook: %w", auth.ErrBusy), 429}, {errors.New("the store does not answer"), 503}} {
		in := callFor(&permits{failure: c.failure}, "GET", "/api/v1/pods")
		var got apierrors.APIStatus
		if err := identify(in, nil); !errors.As(err, &got) || got.Status().Code != c.code {
			t.Errorf("%v is answered with %v", c.failure, err)
		}
	}
}

func TestChecksOfTokensAreBounded(t *testing.T) {
	in := callFor(&permits{user: auth.User{Name: "a"}}, "GET", "/api/v1/pods")
	in.Request.Header.Set("Authorization", "Bearer x")
	in.s.identifying <- struct{}{}
	if err := identify(in, nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("%v", err)
	}
	<-in.s.identifying
	if err := identify(in, func(*call) error { return nil }); err != nil || in.user.Name != "a" || len(in.s.identifying) != 0 {
		t.Errorf("%v, %+v", err, in.user)
	}
}

func TestReadsAndWritesHaveSeparateLimits(t *testing.T) {
	p := &permits{}
	get, post := callFor(p, "GET", "/api/v1/pods"), callFor(p, "POST", "/api/v1/namespaces/n/pods")
	post.s = get.s
	get.s.o.RequestTimeout = 1
	for _, c := range []*call{get, post} {
		c.Face = new(resource.Face)
	}
	full := func(*call) error {
		if err := limit(get, nil); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%v", err)
		}
		return limit(post, func(*call) error { return nil })
	}
	if err := limit(get, full); err != nil {
		t.Errorf("%v", err)
	}
	if len(get.s.reading)+len(get.s.changing) != 0 {
		t.Error("a place is kept")
	}
	watch := callFor(p, "GET", "/api/v1/pods?watch=1")
	watch.Face = new(resource.Face)
	watch.s.reading <- struct{}{}
	if watch.longRunning = true; limit(watch, func(*call) error { return nil }) != nil {
		t.Error("a watch takes a place")
	}
}

func TestForbiddenRequestsAreExplainedInTheWordsOfKubernetes(t *testing.T) {
	no := func(auth.Attributes) auth.Verdict { return auth.Verdict{} }
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/api/v1/namespaces/n/pods", `pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "n"`},
		{"GET", "/apis/apps/v1/deployments?watch=1", `deployments.apps is forbidden: User "bob" cannot watch resource "deployments" in API group "apps" at the cluster scope`},
		{"PUT", "/api/v1/namespaces/n/pods/p/status", `pods "p" is forbidden: User "bob" cannot update resource "pods/status" in API group "" in the namespace "n"`},
		{"GET", "/api/v1/namespaces/n", `namespaces "n" is forbidden: User "bob" cannot get resource "namespaces" in API group "" in the namespace "n"`},
		{"GET", "/metrics", `forbidden: User "bob" cannot get path "/metrics"`},
	} {
		in := callFor(&permits{verdict: no}, c.method, c.path)
		in.user = auth.User{Name: "bob"}
		if err := authorize(in, nil); !apierrors.IsForbidden(err) || err.Error() != c.want {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
	}
	because := func(auth.Attributes) auth.Verdict {
		return auth.Verdict{Decision: auth.Deny, Reason: auth.Words("of the moon")}
	}
	in := callFor(&permits{verdict: because}, "GET", "/version")
	if err := authorize(in, nil); err.Error() != `forbidden: User "" cannot get path "/version": of the moon` {
		t.Errorf("%v", err)
	}
	broken := func(auth.Attributes) auth.Verdict { return auth.Verdict{Err: errors.New("no store")} }
	if err := authorize(callFor(&permits{verdict: broken}, "GET", "/version"), nil); !apierrors.IsInternalError(err) {
		t.Errorf("%v", err)
	}
}

func TestPermissionToReadAPodDoesNotAllowASessionInIt(t *testing.T) {
	reader := func(a auth.Attributes) auth.Verdict {
		if a.Verb == "get" {
			return auth.Verdict{Decision: auth.Allow}
		}
		return auth.Verdict{}
	}
	pass := func(*call) error { return nil }
	for path, allowed := range map[string]bool{
		"/api/v1/namespaces/n/pods/p/exec": false, "/api/v1/namespaces/n/pods/p/attach": false, "/api/v1/namespaces/n/pods/p/portforward": false,
		"/api/v1/namespaces/n/pods/p/log": true, "/api/v1/namespaces/n/pods/p": true,
	} {
		if err := authorize(callFor(&permits{verdict: reader}, "GET", path), pass); (err == nil) != allowed {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestASelectorOfANameNamesTheObject(t *testing.T) {
	p := &permits{verdict: func(auth.Attributes) auth.Verdict { return auth.Verdict{Decision: auth.Allow} }}
	in := callFor(p, "GET", "/api/v1/namespaces/n/secrets?fieldSelector=metadata.name%3Done&labelSelector=a%3Db&watch=1")
	if err := authorize(in, func(*call) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if at := p.asked[0]; at.Name != "one" || len(at.Fields) != 1 || len(at.Labels) != 1 {
		t.Errorf("%+v", at)
	}
}
