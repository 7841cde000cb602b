package admission

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/resource"
)

// ownerReferences lets those change the owners of an object who may delete it, and those keep an owner from being
// deleted who may set its finalizers.
func ownerReferences(o *Options) registry.Admission {
	return validating("OwnerReferencesPermissionEnforcement", func(ctx context.Context, c *registry.Change) error {
		if c.Object == nil || o.Authorize == nil || c.Operation == registry.Delete || is(c, "", "pods") && c.View == "status" {
			return nil
		}
		var before []metav1.OwnerReference
		if c.Old != nil {
			before = c.Old.GetOwnerReferences()
		}
		now := c.Object.GetOwnerReferences()
		if equality.Semantic.DeepEqual(before, now) {
			return nil
		}
		ask := asker(ctx, o.Authorize)
		if c.Operation != registry.Create {
			if v := ask("delete", c.Kind.GroupVersion().WithResource(c.Kind.Resource), c.View, c.Namespace, c.Name); !v.Allowed() {
				return forbidden(c, "cannot set an ownerRef on a resource you can't delete: %v, %v", v.Why(), v.Err)
			}
		}
		blocking := newlyBlocking(now, before)
		if len(blocking) == 0 || ask("update", schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "finalizers", "", "*").Allowed() {
			return nil
		}
		for _, ref := range blocking {
			face := kindOf(o.Registry, ref)
			if face == nil {
				return forbidden(c, "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "+
					"APIVersion %s Kind %s: no matches for kind %q in version %q", ref.APIVersion, ref.Kind, ref.Kind, ref.APIVersion)
			}
			namespace := ""
			if face.Of.Namespaced {
				namespace = c.Namespace
			}
			if v := ask("update", face.GroupVersionResource(), "finalizers", namespace, ref.Name); !v.Allowed() {
				return forbidden(c, "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v", v.Why(), v.Err)
			}
		}
		return nil
	})
}

// asker asks for the caller.
func asker(ctx context.Context, a auth.Authorizer) func(verb string, of schema.GroupVersionResource, view, namespace, name string) auth.Verdict {
	call := resource.CallFrom(ctx)
	user := auth.User{Name: call.User, UID: call.UID, Groups: call.Groups, Extra: call.Extra}
	return func(verb string, of schema.GroupVersionResource, view, namespace, name string) auth.Verdict {
		return a.Authorize(ctx, auth.Attributes{
			User: user, Verb: verb, Group: of.Group, Version: of.Version, Resource: of.Resource, Subresource: view, Namespace: namespace, Name: name, IsResource: true,
		})
	}
}

// newlyBlocking are the references that keep their owner from being deleted, and did not before.
func newlyBlocking(now, before []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	var out []metav1.OwnerReference
	for _, r := range now {
		did := slices.ContainsFunc(before, func(o metav1.OwnerReference) bool { return o.UID == r.UID && blocks(o) })
		if blocks(r) && !did {
			out = append(out, r)
		}
	}
	return out
}

// kindOf is the face that a reference names.
func kindOf(r *registry.Registry, ref metav1.OwnerReference) *resource.Face {
	want := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	for _, k := range r.Catalogue.Kinds() {
		for _, f := range k.Faces {
			if f.GroupVersionKind == want {
				return f
			}
		}
	}
	return nil
}
