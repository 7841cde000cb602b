package rbac

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/millrace/millrace/internal/server/auth"
)

// Authorize implements auth.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, at auth.Attributes) auth.Verdict {
	s, newest, err := a.latest(ctx)
	if err != nil {
		return auth.Verdict{Err: err}
	}
	if g, ok := s.allows(&at); ok {
		return auth.Verdict{Decision: auth.Allow, Reason: g}
	}
	if !newest { // what another server has granted may not have come here yet
		if s, err = a.newest(ctx); err != nil {
			return auth.Verdict{Err: err}
		}
		if g, ok := s.allows(&at); ok {
			return auth.Verdict{Decision: auth.Allow, Reason: g}
		}
	}
	if missing := s.missing(at.User, at.Namespace); len(missing) > 0 {
		return auth.Verdict{Reason: auth.Words("RBAC: " + aggregate(missing))}
	}
	return auth.Verdict{}
}

const (
	// longestQuestion is how long an answer of the store is waited for before a request is allowed by what this server
	// knows.
	longestQuestion = 500 * time.Millisecond
	// silence is how long a store that has not answered in that time is not asked again.
	silence = 5 * time.Second
)

// latest is the snapshot by which a request is allowed. If the store is shared, it is asked for what is newest;
// otherwise, and while it does not answer, the snapshot is what this server knows.
func (a *Authorizer) latest(ctx context.Context) (s *snapshot, newest bool, err error) {
	if !a.o.Shared || time.Now().UnixNano() < a.silent.Load() {
		s, err = a.current(ctx)
		return s, false, err
	}
	bounded, cancel := context.WithTimeout(ctx, longestQuestion)
	defer cancel()
	if s, err = a.newest(bounded); err == nil {
		return s, true, nil
	}
	if ctx.Err() == nil {
		a.silent.Store(time.Now().Add(silence).UnixNano())
	}
	s, err = a.current(ctx)
	return s, false, err
}

// current is a snapshot that shows all that this server has acknowledged.
func (a *Authorizer) current(ctx context.Context) (*snapshot, error) {
	wrote, err := a.follower.stream.Wrote()
	if err != nil {
		return nil, err
	}
	if s := a.now.Load(); s != nil && s.revision >= wrote {
		return s, nil
	}
	if wrote > 0 {
		if err := a.o.Registry.Cache.WaitFor(ctx, wrote); err != nil {
			return nil, err
		}
	}
	return a.await(ctx, wrote)
}

// newest is a snapshot that shows all that any server has acknowledged by now.
func (a *Authorizer) newest(ctx context.Context) (*snapshot, error) {
	rev, err := a.o.Registry.Cache.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	return a.await(ctx, rev)
}

// allows looks for a grant that allows a request.
func (s *snapshot) allows(a *auth.Attributes) (*grant, bool) {
	if g, ok := s.allowsIn("", a); ok || a.Namespace == "" || !a.IsResource {
		return g, ok
	}
	return s.allowsIn(a.Namespace, a)
}

// allowsIn looks for one among those of a namespace, or of the whole cluster.
func (s *snapshot) allowsIn(namespace string, a *auth.Attributes) (*grant, bool) {
	if g, ok := s.allowsTo(subject{namespace: namespace, name: a.User.Name}, a); ok {
		return g, true
	}
	for _, group := range a.User.Groups {
		if g, ok := s.allowsTo(subject{namespace, group, true}, a); ok {
			return g, true
		}
	}
	return nil, false
}

func (s *snapshot) allowsTo(to subject, a *auth.Attributes) (*grant, bool) {
	all, _ := s.grants.get(to)
	for i := range all {
		if role, ok := s.roles.get(all[i].role); ok && role.allows(a) {
			return all[i].by[0], true
		}
	}
	return nil, false
}

// visit calls a func for each binding that concerns a user in a namespace, those of the whole cluster first, in the
// order of their names.
func (s *snapshot) visit(u auth.User, namespace string, do func(*binding)) {
	scopes := []string{""}
	if namespace != "" {
		scopes = append(scopes, namespace)
	}
	for _, scope := range scopes {
		var found []*binding
		add := func(to subject) {
			all, _ := s.grants.get(to)
			for _, h := range all {
				for _, g := range h.by {
					if !slices.Contains(found, g.of) {
						found = append(found, g.of)
					}
				}
			}
		}
		add(subject{namespace: scope, name: u.Name})
		for _, group := range u.Groups {
			add(subject{scope, group, true})
		}
		slices.SortFunc(found, func(a, b *binding) int { return strings.Compare(a.name.name, b.name.name) })
		for _, b := range found {
			do(b)
		}
	}
}

// missing says which roles a user would have if they were there.
func (s *snapshot) missing(u auth.User, namespace string) (out []error) {
	s.visit(u, namespace, func(b *binding) {
		if _, ok := s.roles.get(b.role); !ok {
			out = append(out, notFound(b.role))
		}
	})
	return out
}

func notFound(role name) error {
	kind := "clusterrole"
	if role.namespace != "" {
		kind = "role"
	}
	return fmt.Errorf("%s.rbac.authorization.k8s.io %q not found", kind, role.name)
}

// aggregate joins errors as Kubernetes does.
func aggregate(errs []error) string {
	if len(errs) == 1 {
		return errs[0].Error()
	}
	all := make([]string, len(errs))
	for i, err := range errs {
		all[i] = err.Error()
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// rulesOf are all rules of a user in a namespace.
func (s *snapshot) rulesOf(u auth.User, namespace string) (rules []rbacv1.PolicyRule, missing []error) {
	s.visit(u, namespace, func(b *binding) {
		role, ok := s.roles.get(b.role)
		if !ok {
			missing = append(missing, notFound(b.role))
			return
		}
		rules = append(rules, role.rules...)
	})
	return rules, missing
}

// Rules implements auth.Authorizer.
func (a *Authorizer) Rules(ctx context.Context, u auth.User, namespace string) auth.Rules {
	s, err := a.newest(ctx)
	if err != nil {
		return auth.Rules{Incomplete: true, Errors: []error{err}}
	}
	rules, missing := s.rulesOf(u, namespace)
	out := auth.Rules{Errors: missing, Incomplete: len(missing) > 0}
	for _, r := range rules {
		if len(r.Resources) > 0 {
			out.Resources = append(out.Resources, auth.ResourceRule{Verbs: r.Verbs, Groups: r.APIGroups, Resources: r.Resources, Names: r.ResourceNames})
		}
		if len(r.NonResourceURLs) > 0 {
			out.Paths = append(out.Paths, auth.PathRule{Verbs: r.Verbs, Paths: r.NonResourceURLs})
		}
	}
	return out
}
