package apiserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/auth"
)

func TestEachPartOfAnImpersonationNeedsAPermission(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		asked  []string
		groups string
	}{
		{"a user", http.Header{"Impersonate-User": {"alice"}}, []string{"users//alice"}, "system:authenticated"},
		{"groups", http.Header{"Impersonate-User": {"alice"}, "Impersonate-Group": {"a", "b"}}, []string{"groups//a", "groups//b", "users//alice"}, "a b system:authenticated"},
		{"an account", http.Header{"Impersonate-User": {"system:serviceaccount:n:robot"}}, []string{"serviceaccounts/n/robot"},
			"system:serviceaccounts system:serviceaccounts:n system:authenticated"},
		{"nobody", http.Header{"Impersonate-User": {"system:anonymous"}}, []string{"users//system:anonymous"}, "system:unauthenticated"},
		{"a uid and more", http.Header{"Impersonate-User": {"alice"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-Example.com%2fscopes": {"x", "y"}},
			[]string{"uids//7", "userextras/example.com/scopes//x", "userextras/example.com/scopes//y", "users//alice"}, "system:authenticated"},
	} {
		p := &permits{verdict: func(a auth.Attributes) auth.Verdict { return allowIf(a.Verb == "impersonate") }}
		in := callFor(p, "GET", "/api/v1/pods")
		in.Request.Header, in.user = c.header, auth.User{Name: "root"}
		var seen *call
		if err := impersonate(in, func(c *call) error { seen = c; return nil }); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var asked []string
		for _, a := range p.asked {
			if a.Verb != "impersonate" { // in a mode with constraints
				continue
			}
			if a.User.Name != "root" {
				t.Errorf("%s: %+v", c.name, a)
			}
			asked = append(asked, strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")+"/"+a.Namespace+"/"+a.Name)
		}
		slices.Sort(asked)
		if !slices.Equal(asked, c.asked) {
			t.Errorf("%s: %v is asked for", c.name, asked)
		}
		if got := strings.Join(seen.user.Groups, " "); got != c.groups || seen.impersonator.Name != "root" {
			t.Errorf("%s: %q, by %v", c.name, got, seen.impersonator)
		}
		if impersonating(seen.Request.Header) {
			t.Errorf("%s: the headers are left for what is behind", c.name)
		}
	}
}

func allowIf(yes bool) auth.Verdict {
	if yes {
		return auth.Verdict{Decision: auth.Allow}
	}
	return auth.Verdict{}
}

// granted returns permissions in the form VERB RESOURCE/NAMESPACE/NAME.
func granted(all ...string) *permits {
	return &permits{verdict: func(a auth.Attributes) auth.Verdict {
		return allowIf(slices.Contains(all, a.Verb+" "+strings.TrimSuffix(a.Resource+"."+a.Group, ".")+"/"+a.Namespace+"/"+a.Name))
	}}
}

func TestConstrainedImpersonationTakesTwoPermissions(t *testing.T) {
	const group = ".authentication.k8s.io/"
	agent := auth.User{Name: "system:serviceaccount:n:agent", Extra: map[string][]string{nodeKey: {"a"}}}
	bob := auth.User{Name: "bob"}
	header := func(name string, more ...string) http.Header {
		h := http.Header{"Impersonate-User": {name}}
		if len(more) > 0 {
			h["Impersonate-Group"] = more
		}
		return h
	}
	for _, c := range []struct {
		name    string
		by      auth.User
		header  http.Header
		granted []string
		groups  string // the groups of the impersonated user; empty if the impersonation is refused
	}{
		{"a user for a verb", bob, header("alice"), []string{"impersonate:user-info users" + group + "/alice", "impersonate-on:user-info:list pods//"}, "system:authenticated"},
		{"a user for another verb", bob, header("alice"), []string{"impersonate:user-info users" + group + "/alice", "impersonate-on:user-info:get pods//"}, ""},
		{"a user without a verb", bob, header("alice"), []string{"impersonate:user-info users" + group + "/alice"}, ""},
		{"a verb without a user", bob, header("alice"), []string{"impersonate-on:user-info:list pods//"}, ""},
		{"a user and a group", bob, header("alice", "dev"), []string{"impersonate:user-info users" + group + "/alice", "impersonate:user-info groups" + group + "/dev", "impersonate-on:user-info:list pods//"}, "dev system:authenticated"},
		{"a user without the group", bob, header("alice", "dev"), []string{"impersonate:user-info users" + group + "/alice", "impersonate-on:user-info:list pods//"}, ""},
		{"many groups at once", bob, header("alice", "a", "b", "c", "d"), []string{"impersonate:user-info users" + group + "/alice", "impersonate:user-info groups" + group + "/*", "impersonate-on:user-info:list pods//"}, "a b c d system:authenticated"},
		{"the masters", bob, header("alice", "system:masters"), []string{"impersonate:user-info users" + group + "/alice", "impersonate:user-info groups" + group + "/system:masters", "impersonate-on:user-info:list pods//"}, ""},
		{"an account", bob, header("system:serviceaccount:n:robot"), []string{"impersonate:serviceaccount serviceaccounts" + group + "n/robot", "impersonate-on:serviceaccount:list pods//"}, "system:serviceaccounts system:serviceaccounts:n system:authenticated"},
		{"an account as a user", bob, header("system:serviceaccount:n:robot"), []string{"impersonate:user-info users" + group + "/system:serviceaccount:n:robot", "impersonate-on:user-info:list pods//"}, ""},
		{"an account with groups", bob, header("system:serviceaccount:n:robot", "dev"), []string{"impersonate:serviceaccount serviceaccounts" + group + "n/robot", "impersonate-on:serviceaccount:list pods//"}, ""},
		{"any node", bob, header("system:node:a"), []string{"impersonate:arbitrary-node nodes" + group + "/a", "impersonate-on:arbitrary-node:list pods//"}, "system:nodes system:authenticated"},
		{"a node as a user", bob, header("system:node:a"), []string{"impersonate:user-info users" + group + "/system:node:a", "impersonate-on:user-info:list pods//"}, ""},
		{"one's own node", agent, header("system:node:a"), []string{"impersonate:associated-node nodes" + group + "/*", "impersonate-on:associated-node:list pods//"}, "system:nodes system:authenticated"},
		{"another node", agent, header("system:node:b"), []string{"impersonate:associated-node nodes" + group + "/*", "impersonate-on:associated-node:list pods//"}, ""},
		{"the node of no account", auth.User{Name: "bob", Extra: agent.Extra}, header("system:node:a"), []string{"impersonate:associated-node nodes" + group + "/*", "impersonate-on:associated-node:list pods//"}, ""},
		{"one's own node in a group", agent, header("system:node:a", "system:masters"), []string{"impersonate:associated-node nodes" + group + "/*", "impersonate-on:associated-node:list pods//"}, ""},
	} {
		in := callFor(granted(c.granted...), "GET", "/api/v1/pods")
		in.Request.Header, in.user = c.header, c.by
		var seen *call
		err := impersonate(in, func(c *call) error { seen = c; return nil })
		switch {
		case c.groups == "" && !apierrors.IsForbidden(err):
			t.Errorf("%s: %v", c.name, err)
		case c.groups != "" && (err != nil || strings.Join(seen.user.Groups, " ") != c.groups || seen.user.Name != c.header.Get("Impersonate-User")):
			t.Errorf("%s: %v as %+v", c.name, err, in.user)
		}
	}
}

func TestOneRefusalEndsAnImpersonation(t *testing.T) {
	users := func(a auth.Attributes) auth.Verdict {
		if a.Resource == "users" {
			return auth.Verdict{Decision: auth.Allow}
		}
		return auth.Verdict{}
	}
	in := callFor(&permits{verdict: users}, "GET", "/api/v1/pods")
	in.Request.Header = http.Header{"Impersonate-User": {"alice"}, "Impersonate-Group": {"system:masters"}}
	in.user = auth.User{Name: "bob"}
	const want = `pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`
	if err := impersonate(in, nil); !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-A"} {
		in.Request.Header = http.Header{name: {"x"}}
		if err := impersonate(in, nil); !apierrors.IsBadRequest(err) {
			t.Errorf("%s without a user: %v", name, err)
		}
	}
}

func TestImpersonationHeadersWithoutAUserChangeNothing(t *testing.T) {
	for _, h := range []http.Header{
		{"Impersonate-User": {""}},
		{"Impersonate-Anything": {"x"}},
		{"Impersonate-": {"x"}},
		{"Impersonate-Group": {}},
	} {
		p := &permits{verdict: func(auth.Attributes) auth.Verdict { return auth.Verdict{} }}
		in := callFor(p, "GET", "/api/v1/pods")
		in.Request.Header, in.user = h, auth.User{Name: auth.Anonymous, Groups: []string{auth.Unauthenticated}}
		var seen auth.User
		if err := impersonate(in, func(c *call) error { seen = c.user; return nil }); err != nil {
			t.Errorf("%v: %v", h, err)
		}
		if seen.Name != auth.Anonymous || seen.In(auth.Authenticated) || in.impersonator != nil {
			t.Errorf("%v makes %+v of a stranger", h, seen)
		}
	}
}
