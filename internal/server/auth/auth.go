// Package auth finds out who calls and whether they may.
//
// A client proves who it is with a client certificate of one of the authorities, or with a bearer token. One good proof
// is enough, whatever else is shown. A client that proves nothing is system:anonymous; one that tries and fails is
// turned away and is not taken for anonymous.
//
// Authorizers are asked in order; the first that allows or denies decides, and what nobody has an opinion about is
// refused. The rooms below hold them: rbac follows the roles of the cluster, node knows what a kubelet needs.
package auth

import (
	"context"
	"slices"
	"strings"
)

// User is who calls.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Names that Kubernetes gives.
const (
	Anonymous       = "system:anonymous"
	Unauthenticated = "system:unauthenticated"
	Authenticated   = "system:authenticated"
	// Masters is the group whose members may do everything, whatever the roles say.
	Masters = "system:masters"
	// Nodes is the group of all kubelets; a kubelet's name is NodePrefix and the name of its node.
	Nodes      = "system:nodes"
	NodePrefix = "system:node:"
	// BootstrapTokens is the group of all who come with a bootstrap token, BootstrapNodes of those who may join as
	// nodes: the one that kubeadm gives to its tokens.
	BootstrapTokens = "system:bootstrappers"
	BootstrapNodes  = "system:bootstrappers:kubeadm:default-node-token"
	// AccountPrefix begins the name of a service account, "system:serviceaccount:NAMESPACE:NAME".
	AccountPrefix = "system:serviceaccount:"
	// Accounts is the group of all service accounts; AccountsPrefix and a namespace is the group of those in it.
	Accounts       = "system:serviceaccounts"
	AccountsPrefix = "system:serviceaccounts:"
)

// In tells whether the user is in a group.
func (u User) In(group string) bool { return slices.Contains(u.Groups, group) }

// AccountName is the user name of a service account.
func AccountName(namespace, name string) string { return AccountPrefix + namespace + ":" + name }

// SplitAccount takes the user name of a service account apart.
func SplitAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, AccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	return namespace, name, ok && namespace != "" && name != "" && !strings.Contains(name, ":")
}

// AccountGroups are the groups of a service account.
func AccountGroups(namespace string) []string { return []string{Accounts, AccountsPrefix + namespace} }

// NodeOf is the node whose kubelet a user is: its name begins as theirs do, and it is in their group.
func NodeOf(u User) (node string, ok bool) {
	node, ok = strings.CutPrefix(u.Name, NodePrefix)
	return node, ok && node != "" && u.In(Nodes)
}

type userKey struct{}

// WithUser and UserFrom carry the user in a context.
func WithUser(ctx context.Context, u User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user, or the zero User.
func UserFrom(ctx context.Context) User {
	u, _ := ctx.Value(userKey{}).(User)
	return u
}
