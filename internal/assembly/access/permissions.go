package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/auth/abac"
	"github.com/millrace/millrace/internal/server/auth/chain"
	"github.com/millrace/millrace/internal/server/auth/node"
	"github.com/millrace/millrace/internal/server/auth/rbac"
	"github.com/millrace/millrace/internal/server/registry"
)

// Permissions has the authorizers of the cluster. There is one instance.
type Permissions struct {
	*chain.Chain
	roles    *rbac.Authorizer // nil without the mode RBAC
	nodes    *node.Authorizer // nil without the mode Node
	registry *registry.Registry
}

// newPermissions makes the authorizers that the options say.
func (a *Access) newPermissions() (*Permissions, error) {
	p := &Permissions{registry: a.storage.Registry}
	var err error
	p.Chain, err = chain.New(chain.Options{
		File: a.o.ModesFile, Configuration: chain.Modes(a.o.Modes), Webhook: a.o.Webhook, ServerID: a.address.Identity(),
		Own: func(kind string) (auth.Authorizer, error) { return p.own(kind, a) }, Logger: a.o.Logger,
	})
	if err == nil && p.nodes == nil && a.o.OwnNodes {
		err = errors.New("a cluster with nodes of its own needs an authorizer of the type Node")
	}
	return p, err
}

// own makes an authorizer that is no webhook.
func (p *Permissions) own(kind string, a *Access) (auth.Authorizer, error) {
	switch kind {
	case chain.AlwaysAllow:
		return auth.Always(auth.Allow), nil
	case chain.AlwaysDeny:
		return auth.Always(auth.NoOpinion), nil
	case chain.ABAC:
		if a.o.ABACFile == "" {
			return nil, errors.New("authorization-mode ABAC's authorization policy file not passed")
		}
		return abac.Read(a.o.ABACFile)
	case chain.Node:
		p.nodes = node.New(p.registry)
		return p.nodes, nil
	case chain.RBAC:
		p.roles = rbac.New(rbac.Options{Registry: p.registry, Shared: a.storage.Shared(), Logger: a.o.Logger})
		return p.roles, nil
	}
	return nil, fmt.Errorf("authorization-mode %q is not a valid mode", kind)
}

// Roles returns the authorizer by roles; nil without the mode RBAC.
func (p *Permissions) Roles() *rbac.Authorizer { return p.roles }

// Admission returns the admission plugins that depend on permissions: nodes may only change their own objects, and
// nobody can grant permissions that they do not have.
func (p *Permissions) Admission() []registry.Admission {
	all := []registry.Admission{node.Restriction(p.registry, p)}
	if p.roles != nil {
		all = append(all, p.roles.Escalation(p))
	}
	return all
}

// Follow starts to follow the cluster's roles, and returns when they are known.
func (p *Permissions) Follow(ctx context.Context, l *assembly.List) error {
	l.Run("authorization configuration", p.Run)
	if p.nodes != nil {
		l.Opened("permissions of nodes", func() error { p.nodes.Close(); return nil })
	}
	if p.roles == nil {
		return nil
	}
	l.Run("roles", p.roles.Run)
	return p.roles.WaitReady(ctx)
}
