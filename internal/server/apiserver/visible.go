package apiserver

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/server/apiserver/internal/query"
	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// A list or a watch of namespaces with this parameter, or with this header, shows those in which the user may do
// something.
const (
	visibleParameter = "visible"
	visibleHeader    = "Millrace-Namespaces"
)

// onlyVisible reports whether the request wants only the namespaces in which the user may do something.
func (c *call) onlyVisible() bool {
	if c.t.Resource != "namespaces" || c.t.Group != "" || c.t.Name != "" || c.Face == nil || c.ask != nil ||
		c.verb != "list" && c.verb != "watch" {
		return false
	}
	if values := c.Request.Header[visibleHeader]; len(values) > 0 {
		return slices.Contains(values, "visible")
	}
	if !strings.Contains(c.Request.URL.RawQuery, visibleParameter) {
		return false
	}
	yes, _ := strconv.ParseBool(c.Request.URL.Query().Get(visibleParameter))
	return yes
}

// narrowing is the verdict for a request that shows only what its user may see: whoever has proved who they are may
// send it, unless an authorizer denies them to list namespaces.
func (c *call) narrowing(v auth.Verdict) auth.Verdict {
	if c.onlyVisible() && c.user.In(auth.Authenticated) {
		c.narrow = true
		if v.Decision == auth.NoOpinion && v.Err == nil {
			const why = auth.Words("only namespaces in which the user may do something are shown")
			return auth.Verdict{Decision: auth.Allow, Reason: why}
		}
	}
	return v
}

// visible says which namespaces the user is shown: all of them if the user may list them. The authorizers are asked
// again whenever roles have changed; if one of them has come to deny it, nothing is shown.
func (c *call) visible() registry.NamesAt {
	var known *auth.Reach
	return func(ctx context.Context, at store.Revision) (*registry.Names, error) {
		r, err := c.reach(ctx, at, known)
		if err == nil && (known == nil || r.Changed != known.Changed) {
			err = c.widen(ctx, r)
		}
		if err != nil {
			return nil, apierrors.NewServiceUnavailable("the permissions cannot be read: " + err.Error())
		}
		known = r
		return &registry.Names{Revision: r.Revision, Changed: r.Changed, Sorted: r.Names, All: r.All}, nil
	}
}

// widen makes what the user reaches by roles into all namespaces if any authorizer lets the user list them.
func (c *call) widen(ctx context.Context, r *auth.Reach) error {
	switch v := c.s.o.Authorize.Authorize(ctx, c.attributes()); {
	case v.Allowed():
		r.All = true
	case v.Decision == auth.Deny:
		r.All, r.Names = false, nil
	default:
		return v.Err
	}
	return nil
}

// reach is the namespaces in which the user may do something by roles. Without roles there are none.
func (c *call) reach(ctx context.Context, at store.Revision, known *auth.Reach) (*auth.Reach, error) {
	switch {
	case c.s.o.Reach != nil:
		return c.s.o.Reach.Reach(ctx, c.user, at, known)
	case known != nil:
		return known, nil
	}
	return &auth.Reach{Revision: at}, nil
}

// listVisible lists the namespaces that the user is shown. There are few unless they are all, so that they come in one
// page whatever the limit is.
func (c *call) listVisible(o query.List) (*registry.List, error) {
	at := c.visible()
	names, err := at(c.Within, 0)
	if err != nil {
		return nil, err
	}
	for {
		q := c.query(o)
		q.Names = names
		if !names.All {
			q.Limit = 0
		}
		if !names.All && q.Continue != "" || q.Exact && names.Changed > q.Revision {
			return nil, apierrors.NewResourceExpired("the namespaces that you may see have changed: list them again")
		}
		list, err := c.storage.List(c.Within, q)
		if err != nil {
			return nil, err
		}
		newer, err := at(c.Within, list.Revision)
		if err != nil {
			return nil, err
		}
		if newer.Changed == names.Changed { // the list shows the names of its own revision
			return list, nil
		}
		names = newer
	}
}

// watchVisible watches the namespaces that the user is shown, as they change.
func (c *call) watchVisible(q registry.WatchQuery) (w *registry.Watcher, changed func() <-chan struct{}, err error) {
	w, err = c.storage.WatchNames(c.Request.Context(), q, c.visible())
	if c.s.o.Reach != nil {
		changed = c.s.o.Reach.Changed
	}
	return w, changed, err
}
