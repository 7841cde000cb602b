package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/internal/kubelet/server"
)

// reviewing is an API server that knows a token, and what its owner and others may do.
type reviewing struct {
	*fake.Clientset
	mu    sync.Mutex // guards asked
	asked []string
}

func newReviewing() *reviewing {
	r := &reviewing{Clientset: fake.NewClientset()}
	r.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		r.note("token " + o.Spec.Token)
		if o.Spec.Token == "broken" {
			return true, nil, errors.New("no answer")
		}
		if o.Status.Authenticated = o.Spec.Token == "good"; o.Status.Authenticated {
			o.Status.User = authenticationv1.UserInfo{Username: "collector", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
		}
		return true, o, nil
	})
	r.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		o := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		at := o.Spec.ResourceAttributes
		r.note(strings.Join([]string{o.Spec.User, strings.Join(o.Spec.Groups, ","), at.Verb, at.Resource, at.Subresource, at.Name}, " "))
		switch o.Spec.User + " " + at.Verb + " " + at.Subresource {
		case "collector get pods", "alice get proxy":
			o.Status.Allowed = true
		case "carol get pods":
			return true, nil, errors.New("no answer")
		}
		return true, o, nil
	})
	return r
}

func (r *reviewing) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, text)
}

func (r *reviewing) questions() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.asked, "; ")
}

func TestOthersMayDoWhatTheAPIServerAllows(t *testing.T) {
	ours, api := newAuthority(t), newReviewing()
	call := serveWith(t, ours, &server.Reviewer{Kube: api, Node: func(*http.Request) string { return "n" },
		As: func(ctx context.Context, _ string) context.Context { return ctx }})
	const exec, pods = "/exec/default/web/main?command=id", "/pods"
	for _, c := range []struct {
		who, token, path string
		code             int
		text             string
	}{
		{"", "good", pods, 200, "PodList"},
		{"", "good", pods, 200, "PodList"},
		{"", "good", "/containerLogs/default/web/main", 403, "Forbidden (user=collector, verb=get, resource=nodes, subresource(s)=[proxy])\n"},
		{"", "bad", pods, 401, "Unauthorized\n"},
		{"", "broken", pods, 401, "Unauthorized\n"},
		{"", "", pods, 401, "Unauthorized\n"},
		{"alice", "", pods, 200, "PodList"},
		{"alice", "", "/containerLogs/default/web/main", 200, "log of main"},
		{"alice", "", exec, 403, "Forbidden (user=alice, verb=create, resource=nodes, subresource(s)=[proxy])\n"}, // what a WebSocket asks for by GET
		{"bob", "good", pods, 403, "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{"carol", "", pods, 500, "Authorization error (user=carol, verb=get, resource=nodes, subresource=pods)\n"},
		{"api", "", "/containerLogs/default/web/main", 200, "log of main"},
	} {
		client := call()
		if c.who != "" {
			client = call(ours.pair(c.who))
		}
		client.token = c.token
		if code, text := client.do("GET", c.path); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%q with token %q gets %d %q of %s", c.who, c.token, code, text, c.path)
		}
	}
	const once = "token good; collector g get nodes pods n; collector g get nodes proxy n; token bad; token broken; " +
		"alice system:authenticated get nodes pods n; alice system:authenticated get nodes proxy n; alice system:authenticated create nodes proxy n; " +
		"bob system:authenticated get nodes pods n; bob system:authenticated get nodes proxy n; carol system:authenticated get nodes pods n"
	if got := api.questions(); got != once {
		t.Errorf("the API server was asked %s", got)
	}
}

// Nobody knows the tokens of these strangers, and each has one of its own.
func TestManyStrangersDoNotFloodTheAPIServer(t *testing.T) {
	const strangers, most = 100, 16
	var now, peak, all atomic.Int32
	release := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		at := now.Add(1)
		for old := peak.Load(); at > old && !peak.CompareAndSwap(old, at); old = peak.Load() {
		}
		<-release
		now.Add(-1)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{"authenticated":false}}`)
	}))
	defer api.Close()
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	call := serveWith(t, newAuthority(t), &server.Reviewer{Kube: kube, Node: func(*http.Request) string { return "n" }})
	var calls sync.WaitGroup
	for i := range strangers {
		stranger := call()
		stranger.token = fmt.Sprint("token-", i)
		calls.Go(func() {
			if code, text := stranger.do(http.MethodGet, "/pods"); code != http.StatusUnauthorized {
				t.Errorf("a stranger gets %d: %s", code, text)
			}
		})
	}
	for now.Load() < most {
		time.Sleep(time.Millisecond)
	}
	close(release)
	calls.Wait()
	if peak.Load() != most || all.Load() != strangers {
		t.Errorf("%d of %d questions were asked at a time", peak.Load(), all.Load())
	}
}

func TestThePolicyDecidesAboutClientsWithoutAName(t *testing.T) {
	const forbidden = "Forbidden (user=%s, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"
	for _, c := range []struct {
		what               string
		policy             server.Policy
		alone              bool // without an API server
		nobody, token, bob int
		says               string // to nobody
		questions          int
	}{
		{"the default", server.Policy{}, false, 401, 200, 403, "Unauthorized\n", 4},
		{"anonymous", server.Policy{Anonymous: true}, false, 403, 200, 403, fmt.Sprintf(forbidden, "system:anonymous"), 6},
		{"no tokens", server.Policy{NoTokens: true}, false, 401, 401, 403, "Unauthorized\n", 2},
		{"no tokens, anonymous", server.Policy{NoTokens: true, Anonymous: true}, false, 403, 403, 403, fmt.Sprintf(forbidden, "system:anonymous"), 4},
		{"all may do everything", server.Policy{AllowAll: true}, false, 401, 200, 200, "Unauthorized\n", 1},
		{"everybody may do everything", server.Policy{AllowAll: true, Anonymous: true}, false, 200, 200, 200, "PodList", 1},
		{"alone", server.Policy{}, true, 401, 401, 403, "Unauthorized\n", 0},
		{"alone, and all may do everything", server.Policy{AllowAll: true}, true, 401, 401, 200, "Unauthorized\n", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			ours, api := newAuthority(t), newReviewing()
			o := server.Options{Policy: c.policy}
			if !c.alone {
				o.Reviewer = &server.Reviewer{Kube: api, Node: func(*http.Request) string { return "n" }}
			}
			call := serveOptions(t, ours, o)
			get := func(client *client, token string, want int) string {
				t.Helper()
				client.token = token
				code, text := client.do("GET", "/pods")
				if code != want {
					t.Errorf("it gets %d %q, want %d", code, text, want)
				}
				return text
			}
			if text := get(call(), "", c.nobody); !strings.Contains(text, c.says) {
				t.Errorf("nobody gets %q", text)
			}
			get(call(), "good", c.token)
			get(call(ours.pair("bob")), "", c.bob)
			if got := api.questions(); got != "" && strings.Count(got, ";")+1 != c.questions || got == "" && c.questions > 0 {
				t.Errorf("the API server was asked %s", got)
			}
		})
	}
}

func TestAnswersAreUsedAsLongAsThePolicySays(t *testing.T) {
	ours, api := newAuthority(t), newReviewing()
	call := serveOptions(t, ours, server.Options{
		Policy:   server.Policy{KeepUser: time.Nanosecond, KeepAllowed: time.Nanosecond, KeepRefused: time.Nanosecond},
		Reviewer: &server.Reviewer{Kube: api, Node: func(*http.Request) string { return "n" }},
	})
	for range 2 {
		client := call()
		client.token = "good"
		client.do("GET", "/pods")
	}
	if got := api.questions(); strings.Count(got, "token good") != 2 || strings.Count(got, "collector") != 2 {
		t.Errorf("the API server was asked %s", got)
	}
}
