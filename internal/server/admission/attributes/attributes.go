// Package attributes shows a change as webhooks and policies see it: under the names of the request, and in any version
// in which its objects are served.
//
// A Request belongs to one change and is used by one goroutine. Objects are converted when they are asked for, once for
// each version. What it hands out must not be changed.
package attributes

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/admission/match"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// Request is a change.
type Request struct {
	*registry.Change
	cluster *Cluster
	ctx     context.Context

	// GroupVersionKind is what the request is about, and Resource where it was sent.
	GroupVersionKind schema.GroupVersionKind
	Resource         schema.GroupVersionResource
	// Within is the namespace of the object; a namespace is in itself. Named is the object's name, if the request has
	// one.
	Within, Named string
	User          authenticationv1.UserInfo

	versions  map[schema.GroupVersionResource]*Version
	namespace *corev1.Namespace
}

// Of makes the request of a change.
func (c *Cluster) Of(ctx context.Context, change *registry.Change) *Request {
	face := change.Served()
	r := &Request{Change: change, cluster: c, ctx: ctx, Within: change.Namespace, Named: change.Name}
	if face != nil {
		r.Resource, r.GroupVersionKind = face.GroupVersionResource(), kindAt(change, face)
	}
	if change.Object != nil && r.Named == "" {
		r.Named = change.Object.GetName()
	}
	if r.isNamespace() {
		r.Within = r.Named
	}
	if change.Collection {
		r.Named = ""
	}
	return r
}

// kindAt is the kind of the object that a request for a face has.
func kindAt(c *registry.Change, face *resource.Face) schema.GroupVersionKind {
	switch {
	case c.Body != nil || !c.BodyKind.Empty():
		return c.BodyKind
	case c.View == "scale":
		return resource.ScaleKind
	}
	return face.GroupVersionKind
}

func (r *Request) isNamespace() bool { return r.Kind.Group == "" && r.Kind.Resource == "namespaces" }

// Place is what rules look at.
func (r *Request) Place() match.Place {
	return match.Place{Resource: r.Resource, Subresource: r.View, Operation: admissionv1.OperationType(r.Operation), Namespaced: r.Within != "" && !r.isNamespace()}
}

// Context is that of the change.
func (r *Request) Context() context.Context { return r.ctx }

// UserInfo is who asks.
func (r *Request) UserInfo() authenticationv1.UserInfo {
	if r.User.Extra == nil {
		call := resource.CallFrom(r.ctx)
		r.User = authenticationv1.UserInfo{Username: call.User, UID: call.UID, Groups: call.Groups, Extra: map[string]authenticationv1.ExtraValue{}}
		for k, v := range call.Extra {
			r.User.Extra[k] = v
		}
	}
	return r.User
}

// NamespaceLabels implements match.Subject. For a namespace that is about to be made or changed they are its own new
// ones.
func (r *Request) NamespaceLabels() (labels.Labels, bool, error) {
	switch {
	case r.isNamespace() && r.View == "" && r.Object != nil:
		return labels.Set(r.Object.GetLabels()), true, nil
	case r.Within == "":
		return nil, r.isNamespace(), nil
	}
	l, err := r.cluster.namespaceLabels(r.ctx, r.Within)
	return l, true, err
}

// ObjectLabels implements match.Subject.
func (r *Request) ObjectLabels() (out []labels.Labels) {
	if o, ok := r.Body.(interface{ GetLabels() map[string]string }); ok {
		return append(out, labels.Set(o.GetLabels()))
	}
	if r.Object != nil {
		out = append(out, r.labelsOf(r.Object))
	}
	if r.Old != nil {
		out = append(out, r.labelsOf(r.Old))
	}
	return out
}

func (r *Request) labelsOf(o resource.Object) labels.Labels {
	if r.View == "scale" { // a Scale has none
		return labels.Set{}
	}
	return labels.Set(o.GetLabels())
}

// NamespaceObject is the namespace of the object, or nil if it has none. A namespace is in no other.
func (r *Request) NamespaceObject() (*corev1.Namespace, error) {
	if r.namespace == nil && r.Within != "" && !r.isNamespace() {
		found, err := r.cluster.namespace(r.ctx, r.Within)
		if err != nil {
			return nil, err
		}
		r.namespace = found
	}
	return r.namespace, nil
}

// virtual are resources that no webhook and no policy may hold up: nobody could say any more who they are.
var virtual = map[schema.GroupResource]bool{
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
}

// IsReview tells reviews of users and permissions, which no webhook and no policy is asked about.
func IsReview(c *registry.Change) bool { return virtual[c.Kind.GroupResource()] }

// IsConfiguration tells changes of webhooks and policies themselves. Those of the API are not asked about them, so that
// nobody can lock a cluster out of its own configuration.
func IsConfiguration(c *registry.Change) bool { return c.Kind.Group == admissionv1.GroupName }
