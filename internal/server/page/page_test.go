package page

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/server/auth"
)

// world is a page in front of an API that says who asks for what.
type world struct {
	t    *testing.T
	page *Page
	// asked is the newest request that has come to the API.
	asked *http.Request
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.page = New(Options{API: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.asked = r
		_, _ = io.WriteString(out, auth.UserFrom(r.Context()).Name)
	})})
	return w
}

const host = "127.0.0.1:6444"

// send sends a request as a browser would.
func (w *world) send(method, path, body string, change ...func(*http.Request)) *http.Response {
	w.t.Helper()
	r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(body))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range change {
		c(r)
	}
	out := httptest.NewRecorder()
	w.page.ServeHTTP(out, r)
	return out.Result()
}

// opens is a session as the browser has it.
type opens struct {
	cookie *http.Cookie
	key    string
}

func (o opens) add(r *http.Request) {
	r.AddCookie(o.cookie)
	r.Header.Set(Key, o.key)
}

// login makes a link for a user, and a session from it.
func (w *world) login(user string) opens {
	w.t.Helper()
	code, _, err := w.page.Link(auth.User{Name: user})
	if err != nil {
		w.t.Fatal(err)
	}
	answer := w.exchange(code)
	var said opened
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || answer.StatusCode != http.StatusOK || said.User != user {
		w.t.Fatalf("%d, %+v, %v", answer.StatusCode, said, err)
	}
	return opens{answer.Cookies()[0], said.Key}
}

func (w *world) exchange(code string) *http.Response {
	w.t.Helper()
	return w.send("POST", loginPath, `{"code":"`+code+`"}`)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestALinkLetsInOnceAndNotForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		code, ends, err := w.page.Link(auth.User{Name: "alice"})
		if err != nil || time.Until(ends) != LinkLife || len(code) < 26 {
			t.Fatalf("%q, %v, %v", code, ends, err)
		}
		if got := w.exchange("WRONG" + code[5:]).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("a wrong code: %d", got)
		}
		if got := w.exchange("").StatusCode; got != http.StatusUnauthorized {
			t.Errorf("no code: %d", got)
		}
		if got := w.exchange(code).StatusCode; got != http.StatusOK {
			t.Errorf("the code: %d", got)
		}
		if got := w.exchange(code).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("the code once more: %d", got)
		}
		late, _, _ := w.page.Link(auth.User{Name: "alice"})
		time.Sleep(LinkLife)
		if got := w.exchange(late).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("a code that is too old: %d", got)
		}
	})
}

func TestTheCookieIsForTheServerAlone(t *testing.T) {
	w := newWorld(t)
	c := w.login("alice").cookie
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != Prefix || c.Secure || c.Name != "millrace-page-6444" || c.MaxAge != int(SessionLife/time.Second) {
		t.Errorf("%+v", c)
	}
	code, _, _ := w.page.Link(auth.User{Name: "alice"})
	r := httptest.NewRequest("POST", "https://example.com"+loginPath, strings.NewReader(`{"code":"`+code+`"}`)) // with TLS
	out := httptest.NewRecorder()
	w.page.ServeHTTP(out, r)
	if c := out.Result().Cookies(); len(c) != 1 || !c[0].Secure || c[0].Name != "millrace-page" {
		t.Errorf("with TLS: %+v", c)
	}
}

func TestASessionReadsAsItsUserAndHandsOnNothingOfTheBrowser(t *testing.T) {
	w := newWorld(t)
	s := w.login("alice")
	answer := w.send("GET", clusterPath+"/api/v1/pods?limit=3", "", s.add, header("Authorization", "Bearer x"), header("Impersonate-User", "admin"),
		header("X-Remote-User", "admin"), header("Accept", "application/json"))
	b, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK || string(b) != "alice" || w.asked.URL.String() != "/api/v1/pods?limit=3" {
		t.Fatalf("%d, %s, %v", answer.StatusCode, b, w.asked.URL)
	}
	for name := range w.asked.Header {
		if !slices.Contains(passed, name) {
			t.Errorf("the API gets the header %s", name)
		}
	}
}

func TestHalfASessionIsNone(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.login("alice"), w.login("bob")
	for what, change := range map[string][]func(*http.Request){
		"nothing":                  nil,
		"the cookie":               {func(r *http.Request) { r.AddCookie(alice.cookie) }},
		"the key":                  {header(Key, alice.key)},
		"a cookie and no key":      {opens{alice.cookie, ""}.add},
		"the key of another":       {opens{alice.cookie, bob.key}.add},
		"the cookie as the key":    {opens{alice.cookie, alice.cookie.Value}.add},
		"the cookie of a port":     {alice.add, func(r *http.Request) { r.Host = "127.0.0.1:7444" }},
		"a bearer with the secret": {header("Authorization", "Bearer "+alice.cookie.Value)},
	} {
		if got := w.send("GET", clusterPath+"/api/v1/pods", "", change...).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("%s: %d", what, got)
		}
	}
	if w.asked != nil {
		t.Error("the API was asked")
	}
}

func TestASessionEndsWithItsTimeAndWhenItsUserLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		left, kept := w.login("alice"), w.login("alice")
		if got := w.send("POST", logoutPath, "", left.add).StatusCode; got != http.StatusNoContent {
			t.Errorf("to leave: %d", got)
		}
		if got := w.send("GET", clusterPath+"/version", "", left.add).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("after leaving: %d", got)
		}
		time.Sleep(SessionLife - time.Nanosecond)
		if got := w.send("GET", clusterPath+"/version", "", kept.add).StatusCode; got != http.StatusOK {
			t.Errorf("before its end: %d", got)
		}
		time.Sleep(time.Nanosecond)
		if got := w.send("GET", clusterPath+"/version", "", kept.add).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("after its end: %d", got)
		}
	})
}

func TestASessionChangesNothing(t *testing.T) {
	w := newWorld(t)
	s := w.login("alice")
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"} {
		if got := w.send(method, clusterPath+"/api/v1/namespaces/a/pods", "{}", s.add).StatusCode; got != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, got)
		}
	}
	if got := w.send("GET", clusterPath+"/api/v1/pods?watch=1", "", s.add, header("Upgrade", "websocket")).StatusCode; got != http.StatusForbidden {
		t.Errorf("an upgrade: %d", got)
	}
	if w.asked != nil {
		t.Error("the API was asked")
	}
}

func TestOnlyWhatIsReadIsReadable(t *testing.T) {
	for path, want := range map[string]bool{
		"/api": true, "/apis": true, "/api/v1": true, "/apis/apps": true, "/apis/apps/v1": true,
		"/api/v1/pods": true, "/api/v1/namespaces/a/pods": true, "/api/v1/namespaces/a/pods/b": true, "/api/v1/nodes/a": true,
		"/api/v1/namespaces/a/pods/b/log": true, "/api/v1/namespaces/a/pods/b/status": true, "/apis/apps/v1/namespaces/a/deployments/b/scale": true,
		"/apis/example.com/v1/things/a/status": true, "/api/v1/namespaces/a/status": true,
		"/at/10m": true, "/at/10m/api/v1/pods": true, "/history/api/v1/namespaces/a/pods/b": true, "/why/api/v1/namespaces/a/pods/b": true, "/effects/api/v1/nodes/a": true, "/readyz": true, "/metrics": true, "/version": true,

		"": false, "/": false, "/at": false, "/history": false, "/debug/pprof/heap": false, "/readyz/etcd": false, "/openapi/v2": false, "/logs": false,
		"/api/v1/namespaces/a/pods/b/exec": false, "/api/v1/namespaces/a/pods/b/attach": false, "/api/v1/namespaces/a/pods/b/portforward": false,
		"/api/v1/namespaces/a/pods/b/proxy": false, "/api/v1/namespaces/a/pods/b/proxy/x": false, "/api/v1/namespaces/a/pods/b/log/proxy": false,
		"/api/v1/nodes/a/proxy": false, "/api/v1/nodes/a/proxy/run": false, "/api/v1/namespaces/a/services/b/proxy/": false, "/api/v1/watch/pods": false,
		"/api/v1/proxy/nodes/a": false, "/api/v1/namespaces/a/proxy": false, "/api/v1/namespaces/a/proxy/b/proxy": false,
		"/at/10m/api/v1/namespaces/a/pods/b/exec": false, "/history/api/v1/nodes/a/proxy": false, "/at/1/at/2/api/v1/pods": false,
		"/api/v1//namespaces/a/pods/b/exec": false, "/api/v1/pods/../nodes/a/proxy": false,
		"/apis/example.com/v1/namespaces/a/things/b/exec": false, "/apis/example.com/v1/things/a/console": false,
	} {
		if got := readable(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestNoOtherPageGetsAnAnswer(t *testing.T) {
	w := newWorld(t)
	s := w.login("alice")
	paths := []string{clusterPath + "/api/v1/secrets", loginPath, logoutPath, Prefix + "main.js"}
	for what, change := range map[string]func(*http.Request){
		"another origin":           header("Origin", "https://example.com"),
		"another port":             header("Origin", "http://127.0.0.1:8080"),
		"no origin":                header("Origin", "null"),
		"the origin with TLS":      header("Origin", "https://"+host),
		"another site":             header("Sec-Fetch-Site", "cross-site"),
		"another host of the site": header("Sec-Fetch-Site", "same-site"),
		"a script of a site that lies": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "no-cors")
		},
		"a frame": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", "iframe")
		},
	} {
		for _, path := range paths {
			for _, method := range []string{"GET", "POST"} {
				answer := w.send(method, path, `{"code":"x"}`, s.add, change)
				if answer.StatusCode != http.StatusForbidden || answer.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s: %s %s: %d", what, method, path, answer.StatusCode)
				}
			}
		}
	}
	if w.asked != nil {
		t.Error("the API was asked")
	}
	from := func(r *http.Request) { // a link in a mail, or a terminal
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
	}
	if got := w.send("GET", Prefix, "", from).StatusCode; got != http.StatusOK {
		t.Errorf("to open the page by a link: %d", got)
	}
}

func TestNobodyEndsOrBlocksWhatOthersHave(t *testing.T) {
	w := newWorld(t)
	bob := w.login("bob")
	first := w.login("alice")
	for range mostOfUser {
		w.login("alice")
	}
	if got := w.send("GET", clusterPath+"/version", "", first.add).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("the oldest of too many sessions: %d", got)
	}
	for range 2 * mostOfUser {
		if _, _, err := w.page.Link(auth.User{Name: "alice"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.page.links.all); n != mostOfUser {
		t.Errorf("%d links of one user", n)
	}
	if got := w.send("GET", clusterPath+"/version", "", bob.add).StatusCode; got != http.StatusOK {
		t.Errorf("the session of another: %d", got)
	}
}

func TestLinksAndSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range mostOfAll {
			if _, _, err := w.page.Link(auth.User{Name: string(rune('a' + i))}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := w.page.Link(auth.User{Name: "one more"}); err == nil {
			t.Error("there is no bound")
		}
		time.Sleep(LinkLife)
		if _, _, err := w.page.Link(auth.User{Name: "one more"}); err != nil || len(w.page.links.all) != 1 {
			t.Errorf("old links stay: %v", err)
		}
	})
}

func TestTheCodeOfALinkIsNotSentToTheServer(t *testing.T) {
	got := (&Made{Code: "ABC"}).URL("https://example.com:6443/")
	if got != "https://example.com:6443/page/#ABC" {
		t.Error(got)
	}
	if got := (&Made{Page: "http://127.0.0.1:6444", Code: "ABC"}).URL("https://127.0.0.1:6443"); got != "http://127.0.0.1:6444/page/#ABC" {
		t.Error(got)
	}
}

func TestEveryAnswerHasThePolicyAndNothingInThePageNeedsMore(t *testing.T) {
	w := newWorld(t)
	s := w.login("alice")
	for _, path := range []string{Prefix, Prefix + "main.js", Prefix + "rows.js", Prefix + "nothing", clusterPath + "/version", loginPath} {
		h := w.send("GET", path, "", s.add).Header
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
			t.Errorf("%s: %q", path, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for name, f := range w.page.files {
		for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick=", "//cdn"} {
			if strings.HasSuffix(name, "l") && word == "eval(" {
				continue
			}
			if bytes.Contains(f.text, []byte(word)) && !strings.HasSuffix(name, ".css") {
				t.Errorf("%s has %s", name, word)
			}
		}
	}
}

func TestThePageIsSmall(t *testing.T) {
	const most = 250 << 10
	sum := 0
	w := newWorld(t)
	for name, f := range w.page.files {
		if f.kind == "" {
			t.Errorf("%s has no type", name)
		}
		if name != "" {
			sum += len(f.packed)
		}
	}
	t.Logf("%d bytes, compressed", sum)
	if sum > most {
		t.Errorf("the page has %d bytes, more than %d", sum, most)
	}
}
