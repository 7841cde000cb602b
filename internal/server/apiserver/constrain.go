package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/auth"
)

// impersonationMode is a way to become somebody else. All but the last are constrained: it takes the permission to
// become that user and, besides, the permission to do so for what the request asks for.
type impersonationMode struct {
	name    string // empty is the way without constraints
	applies func(*impersonation, *auth.User) bool
}

// impersonationModes are tried in this order.
var impersonationModes = []impersonationMode{
	{"associated-node", func(i *impersonation, by *auth.User) bool {
		return i.onlyName() && i.node() != "" && onNode(by, i.node())
	}},
	{"arbitrary-node", func(i *impersonation, _ *auth.User) bool { return i.onlyName() && i.node() != "" }},
	{"serviceaccount", func(i *impersonation, _ *auth.User) bool { return i.onlyName() && i.account() }},
	{"user-info", func(i *impersonation, _ *auth.User) bool { return i.node() == "" && !i.account() }},
	{"", func(*impersonation, *auth.User) bool { return true }},
}

const (
	becomeVerb = "impersonate"
	onVerb     = "impersonate-on:"
	nodeKey    = "authentication.kubernetes.io/node-name"
	nodeKeys   = "authentication.kubernetes.io/associated-node-keys"

	identityGroup = "authentication.k8s.io"
)

// become finds out whether the client may be somebody else, in one of the modes. The constraint is the verb that
// allowed it, if the mode has constraints. The error is that of the first mode that applies.
func (c *call) become(i *impersonation) (u auth.User, constraint string, first error) {
	for _, m := range impersonationModes {
		if !m.applies(i, &c.user) || c.fully && m.name != "" {
			continue
		}
		err := c.may(&m, i)
		if err == nil {
			u = i.user()
			if m.name == "" {
				return u, "", nil
			}
			if i.node() != "" {
				u.Groups = []string{auth.Nodes, auth.Authenticated}
			}
			return u, m.verb(), nil
		}
		if first == nil {
			first = err
		}
	}
	return auth.User{}, "", first
}

// may asks for all the permissions of a mode.
func (c *call) may(m *impersonationMode, i *impersonation) error {
	by := c.user
	if m.name == "associated-node" {
		// The node follows from the account, which has been looked at: what else is known of the client does not
		// matter.
		by.Extra = map[string][]string{nodeKeys: slices.Sorted(maps.Keys(by.Extra))}
	}
	if m.name != "" {
		at := c.attributes()
		at.User, at.Verb = by, onVerb+m.name+":"+at.Verb
		if err := c.allowed(at); err != nil {
			return err
		}
	}
	for _, part := range m.needs(i, by) {
		if part.refused != nil {
			return auth.Forbidden(part.all[0], auth.Verdict{Reason: auth.Words(part.refused.Error())})
		}
		if part.everything != nil && c.allowed(*part.everything) == nil {
			continue
		}
		for _, at := range part.all {
			if err := c.allowed(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// verb is what it takes to become somebody in this mode.
func (m *impersonationMode) verb() string {
	if m.name == "" {
		return becomeVerb
	}
	return becomeVerb + ":" + m.name
}

// need is the permission for one part of an identity: all of them, or one for everything if there is any. What is
// refused is refused whatever the permissions.
type need struct {
	all        []auth.Attributes
	everything *auth.Attributes
	refused    error
}

// manyParts is from how many groups or extra values on it is worth asking for all of them at once.
const manyParts = 4

// needs are the permissions that a mode takes.
func (m *impersonationMode) needs(i *impersonation, by auth.User) []need {
	constrained, group := m.name != "", ""
	if constrained {
		group = identityGroup
	}
	at := func(group, resource, subresource, namespace, name string) auth.Attributes {
		return auth.Attributes{User: by, Verb: m.verb(), IsResource: true, Group: group, Version: "v1",
			Resource: resource, Subresource: subresource, Namespace: namespace, Name: name}
	}
	name := at(group, "users", "", "", i.name)
	switch namespace, account, ok := auth.SplitAccount(i.name); {
	case ok:
		name = at(group, "serviceaccounts", "", namespace, account)
	case m.name == "associated-node":
		name = at(group, "nodes", "", "", "*")
	case constrained && i.node() != "":
		name = at(group, "nodes", "", "", i.node())
	}
	all := []need{{all: []auth.Attributes{name}}}
	if i.uid != "" {
		all = append(all, need{all: []auth.Attributes{at(identityGroup, "uids", "", "", i.uid)}})
	}
	if len(i.groups) > 0 {
		one := need{}
		for _, g := range i.groups {
			one.all = append(one.all, at(group, "groups", "", "", g))
		}
		if constrained {
			one.refused = checkGroups(i.groups)
			one.everything = wholesale(len(i.groups), at(group, "groups", "", "", "*"))
		}
		all = append(all, one)
	}
	if len(i.extra) > 0 {
		one := need{}
		for key, values := range i.extra {
			for _, v := range values {
				one.all = append(one.all, at(identityGroup, "userextras", key, "", v))
			}
		}
		if constrained {
			one.refused = checkExtra(i.extra)
			one.everything = wholesale(len(one.all), at(identityGroup, "userextras", "*", "", "*"))
		}
		if len(one.all) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// wholesale is a permission for everything, if there is much.
func wholesale(n int, at auth.Attributes) *auth.Attributes {
	if n < manyParts {
		return nil
	}
	return &at
}

func checkGroups(groups []string) error {
	switch {
	case slices.Contains(groups, ""):
		return errors.New("impersonating the empty string group is not allowed")
	case slices.Contains(groups, auth.Masters):
		return errors.New("impersonating the system:masters group is not allowed")
	}
	return nil
}

func checkExtra(extra map[string][]string) error {
	for key, values := range extra {
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if slices.Contains(values, "") {
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// onlyName tells whether nothing but a name is asked for.
func (i *impersonation) onlyName() bool {
	return i.uid == "" && len(i.groups) == 0 && len(i.extra) == 0
}

// account tells whether a service account is asked for.
func (i *impersonation) account() bool {
	_, _, ok := auth.SplitAccount(i.name)
	return ok
}

// node is the node whose kubelet is asked for, or empty.
func (i *impersonation) node() string {
	name, ok := strings.CutPrefix(i.name, auth.NodePrefix)
	if !ok || len(apimachineryvalidation.NameIsDNSSubdomain(name, false)) > 0 {
		return ""
	}
	return name
}

// onNode tells whether somebody is the service account of a pod on a node.
func onNode(u *auth.User, node string) bool {
	_, _, ok := auth.SplitAccount(u.Name)
	names := u.Extra[nodeKey]
	return ok && len(names) == 1 && names[0] == node
}
