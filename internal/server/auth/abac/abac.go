// Package abac decides by a file of policies, one a line: the mode ABAC. The file is read once.
package abac

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/millrace/millrace/internal/server/auth"
)

// Policies are those of a file. They are an auth.Authorizer, and never change.
type Policies []policy

// policy allows a user, or a group, something.
type policy struct {
	User            string `json:"user"`
	Group           string `json:"group"`
	Readonly        bool   `json:"readonly"`
	APIGroup        string `json:"apiGroup"`
	Resource        string `json:"resource"`
	Namespace       string `json:"namespace"`
	NonResourcePath string `json:"nonResourcePath"`
}

// line is a line of the file: a Policy, or what a Policy was before there were versions.
type line struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       policy `json:"spec"`
	policy
}

const (
	version = "abac.authorization.kubernetes.io/v1beta1"
	kind    = "Policy"
	all     = "*"
)

// Read reads a file of policies.
func Read(path string) (Policies, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parse(path, text)
}

func parse(path string, text []byte) (Policies, error) {
	policies := Policies{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		trimmed := bytes.TrimSpace(lines.Bytes())
		if len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}
		p, err := parseLine(trimmed)
		if err != nil {
			return nil, fmt.Errorf("error reading policy file %s, line %d: %s: %w", path, n, lines.Text(), err)
		}
		policies = append(policies, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("error reading policy file %s: %w", path, err)
	}
	return policies, nil
}

func parseLine(text []byte) (policy, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return policy{}, err
	}
	switch {
	case l.APIVersion == "" || l.Kind == "":
		return l.policy.unversioned(), nil
	case l.APIVersion != version || l.Kind != kind:
		return policy{}, fmt.Errorf("no kind %q is registered for version %q", l.Kind, l.APIVersion)
	}
	return l.Spec.everybody(), nil
}

// everybody reads "*" as all who have proved who they are.
func (p policy) everybody() policy {
	if p.User == all || p.Group == all {
		p.User, p.Group = "", auth.Authenticated
	}
	return p
}

// unversioned is what a policy without a version means: what it does not say, it allows.
func (p policy) unversioned() policy {
	p.APIGroup, p.NonResourcePath = all, ""
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = all
	}
	if p.Namespace == "" {
		p.Namespace = all
	}
	if p.Resource == "" {
		p.Resource = all
	}
	if p.User == "" && p.Group == "" {
		p.Group = auth.Authenticated
	}
	return p.everybody()
}

// Authorize implements auth.Authorizer.
func (po Policies) Authorize(_ context.Context, a auth.Attributes) auth.Verdict {
	for i := range po {
		if p := &po[i]; p.isFor(&a.User) && (!p.Readonly || reads(a.Verb)) && p.covers(&a) {
			return auth.Verdict{Decision: auth.Allow}
		}
	}
	return auth.Verdict{Reason: auth.Words("No policy matched.")}
}

// isFor tells whether a policy is about a user. Both are needed if it names a user and a group; one that names nobody
// is about nobody.
func (p *policy) isFor(u *auth.User) bool {
	if p.User == "" && p.Group == "" {
		return false
	}
	return (p.User == "" || p.User == u.Name) && (p.Group == "" || u.In(p.Group))
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func (p *policy) covers(a *auth.Attributes) bool {
	if a.IsResource {
		return is(p.Namespace, a.Namespace) && is(p.Resource, a.Resource) && is(p.APIGroup, a.Group)
	}
	path := p.NonResourcePath
	return is(path, a.Path) || strings.HasSuffix(path, all) && strings.HasPrefix(a.Path, strings.TrimRight(path, all))
}

func is(want, value string) bool { return want == all || want == value }

// Rules implements auth.Authorizer.
func (po Policies) Rules(_ context.Context, u auth.User, namespace string) auth.Rules {
	var out auth.Rules
	for i := range po {
		p := &po[i]
		if !p.isFor(&u) || !is(p.Namespace, namespace) {
			continue
		}
		verbs := []string{"*"}
		if p.Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" {
			out.Resources = append(out.Resources, auth.ResourceRule{Verbs: verbs, Groups: []string{p.APIGroup}, Resources: []string{p.Resource}})
		}
		if p.NonResourcePath != "" {
			out.Paths = append(out.Paths, auth.PathRule{Verbs: verbs, Paths: []string{p.NonResourcePath}})
		}
	}
	return out
}
