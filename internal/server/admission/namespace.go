package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
)

// immortal namespaces cannot be deleted.
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// namespaceLifecycle lets nothing be created in a namespace that does not exist or is going away, and lets nothing
// outlive its namespace.
//
// The check alone cannot do that: it reads the watch cache, which may be behind, and between the check and the write
// other plugins call webhooks, for seconds. Meanwhile the namespace may be emptied and deleted, by any server. So the
// namespace becomes a requirement of the new object, and the store compares its revision in the transaction that
// creates the object. A deletion begins with a write to the namespace: a create either comes before that write, and
// then the namespace controller, which lists after it, finds the object, or it does not happen. That holds for any
// number of servers and without any waiting. It costs a create one more comparison in the store's transaction, and
// another transaction if the namespace has just been changed otherwise. The paths not taken: counting the creates in
// flight knows nothing of other servers, and checking after the write needs somebody who undoes it even if the server
// is killed in between.
func (cl *cluster) namespaceLifecycle() registry.Admission {
	return mutating("NamespaceLifecycle", func(ctx context.Context, c *registry.Change) error {
		if c.Operation == registry.Delete && is(c, "", "namespaces") && slices.Contains(immortal, c.Name) {
			return forbidden(c, "this namespace may not be deleted")
		}
		if c.Operation != registry.Create || !c.Kind.Namespaced || c.Namespace == "" || isReview(c) {
			return nil
		}
		storage, o, err := cl.namespaces.find(ctx, "", c.Namespace)
		if err != nil {
			return err
		}
		ns, err := cl.namespaces.decode(ctx, storage, o)
		if err != nil {
			return err
		}
		if ends(ns) {
			return terminating(c)
		}
		c.Require(registry.Requirement{Key: o.Key, Revision: o.Revision, Renew: func(ctx context.Context) (store.Revision, error) {
			return cl.stillThere(ctx, c, ns.UID)
		}})
		return nil
	})
}

// stillThere returns the newest revision of a namespace. A namespace of the same name that was created meanwhile is
// another one: what has been checked does not hold for it.
func (cl *cluster) stillThere(ctx context.Context, c *registry.Change, uid types.UID) (store.Revision, error) {
	ns, err := cl.namespaces.newest(ctx, "", c.Namespace)
	switch {
	case err != nil:
		return 0, err
	case ns.UID != uid:
		return 0, apierrors.NewNotFound(cl.namespaces.resource, c.Namespace)
	case ends(ns):
		return 0, terminating(c)
	}
	return store.ParseRevision(ns.ResourceVersion)
}

func ends(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating
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
