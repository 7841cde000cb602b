package rbac

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/store"
)

// name is that of a role or a binding. Those for the whole cluster have no namespace.
type name struct{ namespace, name string }

// subject is somebody in a namespace, or in the whole cluster if that is empty. A service account is known by its user
// name.
type subject struct {
	namespace, name string
	group           bool
}

// binding gives roles to subjects.
type binding struct {
	name
	role     name
	subjects []named
}

// named is somebody as a binding names them. There are very many of them, so that the strings which all have in common
// are no copies.
type named struct{ kind, namespace, name string }

// bind makes a binding. It forgets subjects that are nobody.
func bind(at, role name, subjects []rbacv1.Subject) *binding {
	b := &binding{at, role, make([]named, 0, len(subjects))}
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.UserKind:
			b.subjects = append(b.subjects, named{rbacv1.UserKind, "", s.Name})
		case rbacv1.GroupKind:
			b.subjects = append(b.subjects, named{rbacv1.GroupKind, "", s.Name})
		case rbacv1.ServiceAccountKind:
			if s.Namespace != "" || at.namespace != "" {
				b.subjects = append(b.subjects, named{rbacv1.ServiceAccountKind, s.Namespace, s.Name})
			}
		}
	}
	return b
}

// grant is a binding as one of its subjects sees it.
type grant struct {
	of *binding
	as int // which of the subjects
	// words are its reason, once somebody has asked for it.
	words atomic.Pointer[string]
}

// held is a role that a subject has, by one or more bindings: many bindings to one role are looked at once.
type held struct {
	role name
	by   []*grant
}

// snapshot is the roles and bindings at one revision.
type snapshot struct {
	revision store.Revision
	// changed is the revision of the last change of a role, a binding or the set of kinds, or a later one.
	changed    store.Revision
	roles      index[name, *role]
	bindings   index[name, *binding]
	grants     index[subject, []held]
	namespaces index[who, []string] // in which somebody has grants
}

func emptySnapshot() *snapshot {
	return &snapshot{
		roles: newIndex[name, *role](), bindings: newIndex[name, *binding](),
		grants: newIndex[subject, []held](), namespaces: newIndex[who, []string](),
	}
}

// change is a snapshot that is being made.
type change struct {
	roles      *edit[name, *role]
	bindings   *edit[name, *binding]
	grants     *edit[subject, []held]
	namespaces *edit[who, []string]
}

func (s *snapshot) change() *change {
	return &change{s.roles.edit(), s.bindings.edit(), s.grants.edit(), s.namespaces.edit()}
}

// done is the snapshot of a revision. The last change was at another revision, or at the same.
func (c *change) done(rev, changed store.Revision) *snapshot {
	return &snapshot{rev, changed, c.roles.index, c.bindings.index, c.grants.index, c.namespaces.index}
}

func (c *change) setRole(at name, rules []rbacv1.PolicyRule, gone bool) {
	if gone {
		c.roles.remove(at)
	} else {
		c.roles.set(at, compile(rules))
	}
}

func (c *change) setBinding(b *binding, gone bool) {
	c.removeBinding(b.name)
	if gone {
		return
	}
	c.bindings.set(b.name, b)
	for i := range b.subjects {
		s := b.subject(i)
		known, there := c.grants.get(s)
		if !there {
			c.enter(s)
		}
		c.grants.set(s, with(known, &grant{of: b, as: i}))
	}
}

func (c *change) removeBinding(at name) {
	b, ok := c.bindings.get(at)
	if !ok {
		return
	}
	c.bindings.remove(at)
	for i := range b.subjects {
		s := b.subject(i)
		known, _ := c.grants.get(s)
		rest := without(known, b)
		if len(rest) == 0 {
			c.grants.remove(s)
			c.leave(s)
		} else {
			c.grants.set(s, rest)
		}
	}
}

// enter notes that somebody has grants in a namespace. The snapshot before sees nothing of it in the memory that the
// two share, and no other one is made from that.
func (c *change) enter(s subject) {
	if s.namespace != "" {
		known, _ := c.namespaces.get(s.who())
		c.namespaces.set(s.who(), append(known, s.namespace))
	}
}

// leave notes that somebody has no more grants in a namespace.
func (c *change) leave(s subject) {
	known, _ := c.namespaces.get(s.who())
	rest := slices.DeleteFunc(slices.Clone(known), func(namespace string) bool { return namespace == s.namespace })
	if len(rest) == 0 {
		c.namespaces.remove(s.who())
	} else {
		c.namespaces.set(s.who(), rest)
	}
}

// with adds a grant to what a subject holds, and without takes those of a binding away. Both make copies of what they
// change.
func with(known []held, g *grant) []held {
	i := slices.IndexFunc(known, func(h held) bool { return h.role == g.of.role })
	if i < 0 {
		return append(slices.Clip(known), held{g.of.role, []*grant{g}})
	}
	out := slices.Clone(known)
	out[i].by = append(slices.Clip(out[i].by), g)
	return out
}

func without(known []held, b *binding) []held {
	var out []held
	for _, h := range known {
		if h.role == b.role {
			h.by = slices.DeleteFunc(slices.Clone(h.by), func(g *grant) bool { return g.of == b })
		}
		if len(h.by) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// subject is whom the binding names.
func (b *binding) subject(i int) subject {
	s := &b.subjects[i]
	switch s.kind {
	case rbacv1.GroupKind:
		return subject{namespace: b.namespace, name: s.name, group: true}
	case rbacv1.ServiceAccountKind:
		return subject{namespace: b.namespace, name: auth.AccountName(cmp.Or(s.namespace, b.namespace), s.name)}
	}
	return subject{namespace: b.namespace, name: s.name}
}

// String is the reason for what the grant allows, as Kubernetes gives it. Each audited request needs it.
func (g *grant) String() string {
	if known := g.words.Load(); known != nil {
		return *known
	}
	words := g.reason()
	g.words.Store(&words)
	return words
}

func (g *grant) reason() string {
	b := make([]byte, 0, 160)
	b = append(b, "RBAC: allowed by "...)
	if g.of.namespace != "" {
		b = append(b, "RoleBinding "...)
		b = strconv.AppendQuote(b, g.of.name.name+"/"+g.of.namespace)
	} else {
		b = append(b, "ClusterRoleBinding "...)
		b = strconv.AppendQuote(b, g.of.name.name)
	}
	role := " of ClusterRole "
	if g.of.role.namespace != "" {
		role = " of Role "
	}
	b = append(b, role...)
	b = strconv.AppendQuote(b, g.of.role.name)
	s := g.of.subjects[g.as]
	b = append(b, " to "...)
	b = append(append(b, s.kind...), ' ')
	if s.kind == rbacv1.ServiceAccountKind {
		return string(strconv.AppendQuote(b, s.name+"/"+cmp.Or(s.namespace, g.of.namespace)))
	}
	return string(strconv.AppendQuote(b, s.name))
}
