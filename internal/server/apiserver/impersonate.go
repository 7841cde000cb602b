package apiserver

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/auth"
)

// The headers for impersonation.
const (
	impersonatePrefix = "Impersonate-"
	impersonateUser   = impersonatePrefix + "User"
	impersonateGroup  = impersonatePrefix + "Group"
	impersonateUID    = impersonatePrefix + "Uid"
	impersonateExtra  = impersonatePrefix + "Extra-"
)

// impersonate replaces the request's user by the one in its headers, if the authenticated user may impersonate it.
func impersonate(c *call, next handler) error {
	if !impersonating(c.Request.Header) {
		return next(c)
	}
	wanted, err := impersonated(c.Request.Header)
	switch {
	case err != nil:
		return apierrors.NewBadRequest(err.Error())
	case wanted.name == "": // no user is named, whatever other headers begin with that prefix
		return next(c)
	}
	becomes, constraint, err := c.become(&wanted)
	if err != nil {
		return err
	}
	real := c.user
	c.user, c.impersonator = becomes, &real
	c.record.Impersonate(c.user, constraint)
	c.Request = withoutImpersonation(c.Request)
	return next(c)
}

func impersonating(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, impersonatePrefix) {
			return true
		}
	}
	return false
}

// impersonation is the user that a request wants to act as.
type impersonation struct {
	name, uid string
	groups    []string
	extra     map[string][]string
}

func impersonated(h http.Header) (impersonation, error) {
	i := impersonation{name: h.Get(impersonateUser), uid: h.Get(impersonateUID), groups: h[impersonateGroup]}
	for name, values := range h {
		key, ok := strings.CutPrefix(name, impersonateExtra)
		if !ok {
			continue
		}
		key = strings.ToLower(key)
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if i.extra == nil {
			i.extra = map[string][]string{}
		}
		i.extra[key] = append(i.extra[key], values...)
	}
	if i.name == "" && (i.uid != "" || len(i.groups) > 0 || len(i.extra) > 0) {
		return i, errNoName
	}
	return i, nil
}

var errNoName = errors.New("a group, a uid or an extra is impersonated without a user name")

// user returns the impersonated user. If no groups are given, they follow from the name.
func (i impersonation) user() auth.User {
	u := auth.User{Name: i.name, UID: i.uid, Groups: slices.Clone(i.groups), Extra: i.extra}
	if namespace, _, ok := auth.SplitAccount(i.name); ok && len(i.groups) == 0 {
		u.Groups = auth.AccountGroups(namespace)
	}
	switch {
	case u.In(auth.Unauthenticated):
	case i.name == auth.Anonymous:
		u.Groups = append(u.Groups, auth.Unauthenticated)
	case !u.In(auth.Authenticated):
		u.Groups = append(u.Groups, auth.Authenticated)
	}
	return u
}

func withoutImpersonation(r *http.Request) *http.Request {
	plain := *r
	plain.Header = r.Header.Clone()
	for name := range r.Header {
		if strings.HasPrefix(name, impersonatePrefix) {
			delete(plain.Header, name)
		}
	}
	return &plain
}
