package auth

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/resource"
)

// Forbidden returns the error for a denied request, in kube-apiserver's words.
func Forbidden(at Attributes, v Verdict) error {
	because := ""
	if why := v.Why(); why != "" {
		because = ": " + why
	}
	if !at.IsResource {
		e := apierrors.NewForbidden(resource.NoResource, "", nil)
		e.ErrStatus.Message = fmt.Sprintf("forbidden: User %q cannot %s path %q%s", at.User.Name, at.Verb, at.Path, because)
		e.ErrStatus.Details = &metav1.StatusDetails{}
		return e
	}
	what := at.Resource
	if at.Subresource != "" {
		what += "/" + at.Subresource
	}
	where := "at the cluster scope"
	if at.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", at.Namespace)
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: at.Group, Resource: at.Resource}, at.Name,
		fmt.Errorf("User %q cannot %s resource %q in API group %q %s%s", at.User.Name, at.Verb, what, at.Group, where, because))
}
