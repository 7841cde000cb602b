package abac

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/server/auth"
)

const versioned = `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":`

// file is a policy file in which every kind of line is.
const file = `# who may do what
` + versioned + `{"user":"admin","namespace":"*","resource":"*","apiGroup":"*"}}
` + versioned + `{"user":"admin","nonResourcePath":"*"}}

` + versioned + `{"user":"alice","namespace":"team","resource":"pods","readonly":true}}
` + versioned + `{"group":"dev","namespace":"team","resource":"deployments","apiGroup":"apps"}}
` + versioned + `{"user":"bob","group":"ops","namespace":"*","resource":"nodes"}}
` + versioned + `{"group":"*","nonResourcePath":"/version","readonly":true}}
` + versioned + `{"user":"*","nonResourcePath":"/api/*"}}
` + versioned + `{"namespace":"*","resource":"secrets"}}
{"user":"old","readonly":true}
{"user":"older","resource":"events","namespace":"team"}
`

func TestPoliciesAllowWhatTheySay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	known := []string{auth.Authenticated}
	pods := func(verb, namespace string) auth.Attributes {
		return auth.Attributes{Verb: verb, IsResource: true, Resource: "pods", Namespace: namespace}
	}
	of := func(name string, groups []string, a auth.Attributes) auth.Attributes {
		a.User = auth.User{Name: name, Groups: groups}
		return a
	}
	deployments := auth.Attributes{Verb: "create", IsResource: true, Group: "apps", Resource: "deployments", Namespace: "team"}
	nodes := auth.Attributes{Verb: "delete", IsResource: true, Resource: "nodes"}
	secrets := auth.Attributes{Verb: "get", IsResource: true, Resource: "secrets", Namespace: "team"}
	path1 := func(verb, p string) auth.Attributes { return auth.Attributes{Verb: verb, Path: p} }
	for _, c := range []struct {
		what string
		a    auth.Attributes
		want bool
	}{
		{"everything", of("admin", nil, pods("delete", "x")), true},
		{"every path", of("admin", nil, path1("post", "/x")), true},
		{"reading", of("alice", nil, pods("watch", "team")), true},
		{"writing", of("alice", nil, pods("create", "team")), false},
		{"deleting many", of("alice", nil, pods("deletecollection", "team")), false},
		{"elsewhere", of("alice", nil, pods("get", "other")), false},
		{"everywhere", of("alice", nil, pods("list", "")), false},
		{"a group", of("carol", []string{"dev"}, deployments), true},
		{"no group", of("carol", []string{"ops"}, deployments), false},
		{"another API group", of("carol", []string{"dev"}, auth.Attributes{Verb: "get", IsResource: true, Group: "extensions", Resource: "deployments", Namespace: "team"}), false},
		{"user and group", of("bob", []string{"ops"}, nodes), true},
		{"user without group", of("bob", nil, nodes), false},
		{"group without user", of("carol", []string{"ops"}, nodes), false},
		{"a path", of("carol", known, path1("get", "/version")), true},
		{"a path changed", of("carol", known, path1("post", "/version")), false},
		{"a path of nobody", of(auth.Anonymous, []string{auth.Unauthenticated}, path1("get", "/version")), false},
		{"below a path", of("carol", known, path1("get", "/api/v1")), true},
		{"beside it", of("carol", known, path1("get", "/apis")), false},
		{"a policy for nobody", of("carol", known, secrets), false},
		{"unversioned", of("old", nil, pods("get", "x")), true},
		{"unversioned path", of("old", nil, path1("get", "/x")), true},
		{"unversioned change", of("old", nil, pods("create", "x")), false},
		{"unversioned and limited", of("older", nil, auth.Attributes{Verb: "delete", IsResource: true, Group: "events.k8s.io", Resource: "events", Namespace: "team"}), true},
		{"unversioned and elsewhere", of("older", nil, pods("get", "team")), false},
	} {
		if v := all.Authorize(t.Context(), c.a); v.Allowed() != c.want || !c.want && v.Why() != "No policy matched." {
			t.Errorf("%s: %+v", c.what, v)
		}
	}
	rules := all.Rules(t.Context(), auth.User{Name: "alice", Groups: known}, "team")
	if len(rules.Resources) != 1 || strings.Join(rules.Resources[0].Verbs, " ") != "get list watch" || rules.Incomplete {
		t.Errorf("%+v", rules)
	}
}

func TestPoliciesThatCannotBeReadAreNamedByTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"{}\nabc\n": "error reading policy file p, line 2: abc: ",
		`{"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy"}`: `line 1: {"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy"}: no kind "Policy" is registered for version "abac.authorization.kubernetes.io/v2"`,
		versioned + `7}`:           "cannot unmarshal number",
		strings.Repeat("a", 70000): "token too long",
	} {
		if _, err := parse("p", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func FuzzPolicies(f *testing.F) {
	f.Add([]byte(file))
	f.Add([]byte(versioned + `{"user":"a","group":"*"}}`))
	nobody := auth.User{Name: auth.Anonymous, Groups: []string{auth.Unauthenticated}}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse("p", text)
		if err != nil {
			return
		}
		for _, a := range []auth.Attributes{{User: nobody, Verb: "get", IsResource: true, Resource: "secrets", Namespace: "a"}, {User: nobody, Verb: "get", Path: "/x"}} {
			named := strings.Contains(string(text), "system:") || strings.Contains(string(text), `\u`)
			if v := all.Authorize(t.Context(), a); v.Allowed() && !named {
				t.Errorf("%s allows somebody whom it does not name", text)
			}
		}
	})
}
