package millrace_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace"
)

// visitor is a browser with a session.
type visitor struct {
	t      *testing.T
	base   string
	key    string
	client *http.Client
}

// visit opens a link as a browser does.
func visit(t *testing.T, link string) *visitor {
	t.Helper()
	base, code, ok := strings.Cut(link, "/page/#")
	if !ok {
		t.Fatalf("no link: %q", link)
	}
	jar, _ := cookiejar.New(nil) // without options it does not fail
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	v := &visitor{t: t, base: base, client: &http.Client{Jar: jar, Transport: transport}}
	status, body := v.send("POST", "/page/login", `{"code":"`+code+`"}`)
	var said struct{ Key string }
	if err := json.Unmarshal(body, &said); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	v.key = said.Key
	return v
}

func (v *visitor) send(method, path, body string) (status int, answer []byte) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.base+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Millrace-Page", v.key)
	out, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return out.StatusCode, b
}

func TestThePageShowsAUserWhatTheyMayRead(t *testing.T) {
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, Page: true})
	k := clientset(t, c)
	_, err := k.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "read"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "delete"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "alice"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "read"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	link := func(user string, groups ...string) string {
		l, err := c.PageLink(user, groups...)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	alice, admin := visit(t, link("alice", "readers")), visit(t, link(""))
	for path, want := range map[string]int{"/api/v1/namespaces/default/configmaps": 200, "/api/v1/namespaces/default/secrets": 403, "/api/v1/nodes": 403, "/metrics": 403} {
		if got, b := alice.send("GET", "/page/cluster"+path, ""); got != want {
			t.Errorf("%s for alice: %d %s", path, got, b)
		}
		if got, b := admin.send("GET", "/page/cluster"+path, ""); got != 200 {
			t.Errorf("%s for the administrator: %d %s", path, got, b)
		}
	}
	if got, _ := admin.send("DELETE", "/page/cluster/api/v1/namespaces/default", ""); got != http.StatusMethodNotAllowed {
		t.Errorf("a change: %d", got)
	}
	// With the cookie alone the port of the API knows nobody, and the page's port has no API.
	secure := &visitor{t: t, base: c.URL(), key: admin.key, client: admin.client}
	if got, _ := secure.send("GET", "/api/v1/nodes", ""); got != http.StatusForbidden {
		t.Errorf("the API by a cookie: %d", got)
	}
	if got, _ := admin.send("GET", "/api/v1/nodes", ""); got != http.StatusNotFound {
		t.Errorf("the API at the page's port: %d", got)
	}
	if got, _ := admin.send("POST", "/page/link", ""); got != http.StatusNotFound {
		t.Errorf("a link by a session: %d", got)
	}
	other, err := http.NewRequestWithContext(t.Context(), "GET", admin.base+"/page/", nil)
	if err != nil {
		t.Fatal(err)
	}
	other.Host = "attacker.example"
	if out, err := admin.client.Do(other); err != nil || out.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("another name for the address: %v, %v", out, err)
	} else {
		out.Body.Close()
	}
}

// askLink asks the server for a link.
func askLink(t *testing.T, config *rest.Config) (status int, made struct{ Page, Code, User string }) {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", config.Host+"/page/link", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	out, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if out.StatusCode != http.StatusCreated {
		return out.StatusCode, made
	}
	if err := json.NewDecoder(out.Body).Decode(&made); err != nil {
		t.Fatal(err)
	}
	return out.StatusCode, made
}

func TestALinkIsForWhoeverAsksOrMayImpersonate(t *testing.T) {
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, Page: true})
	alice, err := c.User("alice")
	if err != nil {
		t.Fatal(err)
	}
	if status, made := askLink(t, alice); status != http.StatusCreated || made.User != "alice" {
		t.Errorf("for oneself: %d %+v", status, made)
	}
	alice.Impersonate.UserName = "bob"
	if status, _ := askLink(t, alice); status != http.StatusForbidden {
		t.Errorf("for somebody whom one may not impersonate: %d", status)
	}
	admin := c.Config()
	admin.Impersonate.UserName = "bob"
	status, made := askLink(t, admin)
	if u, err := url.Parse(made.Page); status != http.StatusCreated || made.User != "bob" || err != nil || u.Scheme != "http" {
		t.Fatalf("for somebody whom one may impersonate: %d %+v", status, made)
	}
	if got, _ := visit(t, made.Page+"/page/#"+made.Code).send("GET", "/page/cluster/api/v1/nodes", ""); got != http.StatusForbidden {
		t.Errorf("bob reads nodes: %d", got)
	}
	nobody := rest.AnonymousClientConfig(c.Config())
	if status, _ := askLink(t, nobody); status != http.StatusUnauthorized {
		t.Errorf("for nobody: %d", status)
	}
}

func TestWithoutThePageThereIsNone(t *testing.T) {
	c := start(t, millrace.Options{Controllers: []string{}, NoScheduler: true})
	if _, err := c.PageLink(""); err == nil {
		t.Error("there is a link to a page that is not served")
	}
	if status, _ := askLink(t, c.Config()); status != http.StatusNotFound {
		t.Errorf("a link: %d", status)
	}
}
