package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/watchcache"
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
		o, ns, err := cl.namespaceOf(ctx, c)
		if err != nil {
			return err
		}
		c.Require(registry.Requirement{Key: o.Key, Revision: o.Revision, Renew: func(ctx context.Context) (store.Revision, error) {
			return cl.stillThere(ctx, c, ns.UID)
		}})
		return nil
	})
}

// namespaceOf finds the namespace of a new object, and refuses the object if it ends. The cache may have an earlier
// namespace of the same name, so a refusal waits for the newest state. Then the plugins that come later see that, too.
func (cl *cluster) namespaceOf(ctx context.Context, c *registry.Change) (*watchcache.Object, *corev1.Namespace, error) {
	storage, o, err := cl.namespaces.find(ctx, "", c.Namespace)
	if err != nil {
		return nil, nil, err
	}
	ns, err := cl.namespaces.decode(ctx, storage, o)
	if err != nil || !ends(ns) {
		return o, ns, err
	}
	earlier := ns.UID
	if o, err = storage.Get(ctx, "", c.Namespace, registry.Freshness{}); err != nil {
		return nil, nil, err
	}
	if ns, err = cl.namespaces.decode(ctx, storage, o); err != nil || !ends(ns) {
		return o, ns, cmp.Or(err, cl.reached(ctx, c, earlier))
	}
	return nil, nil, terminating(c)
}

// reached refuses a change as long as the cache has an earlier namespace of the same name: the log has stalled.
func (cl *cluster) reached(ctx context.Context, c *registry.Change, earlier types.UID) error {
	ns, err := cl.namespaces.get(ctx, "", c.Namespace)
	if err == nil && ns.UID == earlier {
		return replaced(c)
	}
	return err
}

// stillThere returns the newest revision of a namespace. A namespace of the same name that was created meanwhile is
// another one: what has been checked does not hold for it. To say that there is none would be wrong, too: the cache may
// have shown the earlier one long after it was replaced.
func (cl *cluster) stillThere(ctx context.Context, c *registry.Change, uid types.UID) (store.Revision, error) {
	ns, err := cl.namespaces.newest(ctx, "", c.Namespace)
	switch {
	case err != nil:
		return 0, err
	case ns.UID != uid && !ends(ns):
		return 0, replaced(c)
	case ends(ns):
		return 0, terminating(c)
	}
	return store.ParseRevision(ns.ResourceVersion)
}

// replaced asks the client to try again: the namespace is another one than that which has been checked.
func replaced(c *registry.Change) error {
	return apierrors.NewServerTimeout(c.Kind.GroupResource(), "create", 1)
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
