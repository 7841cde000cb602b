// Package rbac authorizes by the roles of the cluster, in the way of Kubernetes' RBAC.
//
// The roles and bindings are compiled into an immutable index, which one goroutine (Run) exchanges as the log moves; a
// decision reads it without a lock, and costs a few lookups for each group of the user, however many bindings there
// are.
//
// What is guaranteed: every index is the state of the cluster at one revision. A change of a role or a binding that
// this server has acknowledged is seen by every request that begins afterwards. A request is refused only after the
// store has been asked how far the log is and the index has come that far, so that what another server has granted is
// never refused here. If the store is shared, it is also asked before a request is allowed, so that what another server
// has taken away is never allowed here; concurrent requests share the question. While the store does not answer,
// requests are allowed by what the log has brought until then.
//
// Reach says in which namespaces somebody may do something. It looks at the bindings of that user and of their groups
// alone, and tells when it may have changed.
//
// Roles and bindings can only be changed so that nobody gets more than who changes them has (Escalation). Policy is
// what every cluster starts with.
package rbac
