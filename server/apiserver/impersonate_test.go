package apiserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/server/auth"
)

func TestEachPartOfAnImpersonationIsAskedFor(t *testing.T) {
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
		p := &permits{verdict: func(auth.Attributes) auth.Verdict { return auth.Verdict{Decision: auth.Allow} }}
		in := callFor(p, "GET", "/api/v1/pods")
		in.Request.Header, in.user = c.header, auth.User{Name: "root"}
		var seen *call
		if err := impersonate(in, func(c *call) error { seen = c; return nil }); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var asked []string
		for _, a := range p.asked {
			if a.Verb != "impersonate" || a.User.Name != "root" {
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
	const want = `groups "system:masters" is forbidden: User "bob" cannot impersonate resource "groups" in API group "" at the cluster scope`
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

func TestHeadersThatNameNobodyMakeNobodyElseOfAClient(t *testing.T) {
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
