package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/registry"
)

// immortal namespaces cannot be deleted.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// namespaceLifecycle lets nothing be created in a namespace that does not exist or is going away.
func (w *cluster) namespaceLifecycle() registry.Admission {
	return mutating("NamespaceLifecycle", func(ctx context.Context, c *registry.Change) error {
		if c.Operation == registry.Delete && is(c, "", "namespaces") && slices.Contains(immortal, c.Name) {
			return forbidden(c, "this namespace may not be deleted")
		}
		if c.Operation != registry.Create || !c.Kind.Namespaced || c.Namespace == "" || isReview(c) {
			return nil
		}
		ns, err := w.namespaces.get(ctx, "", c.Namespace)
		if err != nil {
			return err
		}
		if ns.Status.Phase == corev1.NamespaceTerminating {
			return terminating(c)
		}
		return nil
	})
}

// isReview tells questions about permissions: an answer about the namespace would tell what the caller may not know.
func isReview(c *registry.Change) bool {
	return is(c, "authorization.k8s.io", "localsubjectaccessreviews")
}

func terminating(c *registry.Change) error {
	e := apierrors.NewForbidden(c.Kind.GroupResource(), nameOf(c),
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.Namespace))
	e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", c.Namespace), Field: "metadata.namespace"})
	return e
}
