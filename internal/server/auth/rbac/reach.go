package rbac

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store"
)

// longestReach is how long Reach waits for a revision. A log that has stalled holds up no watch for longer.
const longestReach = 3 * time.Second

// Reach implements auth.Reacher. It looks at the bindings of the user and of their groups, and at no others.
func (a *Authorizer) Reach(
	ctx context.Context, u auth.User, at store.Revision, known *auth.Reach,
) (*auth.Reach, error) {
	ctx, cancel := context.WithTimeout(ctx, longestReach)
	defer cancel()
	s, err := a.reaching(ctx, at, known == nil)
	if err != nil {
		return nil, err
	}
	if known != nil && known.Changed == s.changed {
		same := *known
		same.Revision = max(same.Revision, s.revision)
		return &same, nil
	}
	r := reach{snapshot: s, catalogue: a.o.Registry.Catalogue, names: map[string]bool{}, counted: map[name]bool{}}
	r.of(who{name: u.Name})
	for _, group := range u.Groups {
		r.of(who{group, true})
	}
	out := &auth.Reach{All: r.all, Revision: s.revision, Changed: s.changed}
	if !r.all {
		out.Names = slices.Sorted(maps.Keys(r.names))
	}
	return out, nil
}

// reaching is a snapshot of a revision or a later one. The first one of a request shows what other servers have
// acknowledged, as one by which a request is allowed.
func (a *Authorizer) reaching(ctx context.Context, at store.Revision, first bool) (s *snapshot, err error) {
	if first {
		s, _, err = a.latest(ctx)
	} else {
		s, err = a.current(ctx)
	}
	if err != nil || s.revision >= at {
		return s, err
	}
	if err := a.o.Registry.Cache.WaitFor(ctx, at); err != nil {
		return nil, err
	}
	return a.await(ctx, at)
}

// Changed implements auth.Reacher.
func (a *Authorizer) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reached
}

// reach collects the namespaces of a user.
type reach struct {
	*snapshot
	catalogue *resource.Catalogue
	all       bool
	names     map[string]bool
	counted   map[name]bool // whether a role allows anything in a namespace: it may be bound in many
}

// of adds the namespaces of one of the user's subjects.
func (r *reach) of(w who) {
	everywhere, _ := r.grants.get(w.in(""))
	for i := range everywhere {
		if role, ok := r.roles.get(everywhere[i].role); ok {
			r.everywhere(role.rules)
		}
	}
	namespaces, _ := r.namespaces.get(w)
	for _, namespace := range namespaces {
		held, _ := r.grants.get(w.in(namespace))
		if !r.names[namespace] && slices.ContainsFunc(held, r.counts) {
			r.names[namespace] = true
		}
	}
}

// everywhere adds what rules allow that hold in the whole cluster. Those for kinds without a namespace count only if
// the kind is that of the namespaces themselves; those for kinds that nobody knows count for nothing.
func (r *reach) everywhere(rules []rbacv1.PolicyRule) {
	for i := range rules {
		rule := &rules[i]
		switch namespaces, namespaced := r.about(rule, false); {
		case namespaced, namespaces && len(rule.ResourceNames) == 0:
			r.all = true
		case namespaces:
			for _, name := range rule.ResourceNames {
				r.names[name] = true
			}
		}
	}
}

// counts reports whether a role that is held in a namespace allows anything there.
func (r *reach) counts(h held) bool {
	counts, known := r.counted[h.role]
	if !known {
		role, ok := r.roles.get(h.role)
		counts = ok && slices.ContainsFunc(role.rules, func(rule rbacv1.PolicyRule) bool {
			namespaces, namespaced := r.about(&rule, true)
			return namespaces || namespaced
		})
		r.counted[h.role] = counts
	}
	return counts
}

// about says whether a rule allows something to namespaces themselves, or to kinds that have one. Unknown kinds, which
// another server may answer, are taken for such if that is wanted.
func (r *reach) about(rule *rbacv1.PolicyRule, unknown bool) (namespaces, namespaced bool) {
	if len(rule.Verbs) == 0 {
		return false, false
	}
	for _, group := range rule.APIGroups {
		for _, name := range rule.Resources {
			name, _, _ = strings.Cut(name, "/")
			switch {
			case group == all || name == all:
				namespaces = namespaces || (group == all || group == "") && (name == all || name == "namespaces")
				namespaced = namespaced || r.anyNamespaced(group, name)
			case group == "" && name == "namespaces":
				namespaces = true
			default:
				kind, known := r.catalogue.Kind(schema.GroupResource{Group: group, Resource: name})
				namespaced = namespaced || known && kind.Namespaced || !known && unknown
			}
		}
	}
	return namespaces, namespaced
}

// anyNamespaced reports whether a kind with a namespace has a group and a name, of which each may stand for all.
func (r *reach) anyNamespaced(group, name string) bool {
	return slices.ContainsFunc(r.catalogue.Kinds(), func(k *resource.Kind) bool {
		return k.Namespaced && (group == all || k.Group == group) && (name == all || k.Resource == name)
	})
}

// who is a subject wherever it is bound.
type who struct {
	name  string
	group bool
}

func (w who) in(namespace string) subject { return subject{namespace, w.name, w.group} }

func (s subject) who() who { return who{s.name, s.group} }
