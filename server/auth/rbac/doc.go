// Package rbac authorizes by the roles of the cluster, in the way of Kubernetes' RBAC.
//
// The roles and bindings are compiled into an immutable index, which one goroutine (Run) exchanges as the log moves; a
// decision reads it without a lock, and costs a few lookups for each group of the user, however many bindings there are.
//
// What is guaranteed: every index is the state of the cluster at one revision. A change of a role or a binding that this
// server has acknowledged is seen by every request that begins afterwards. A request is refused only after the store has
// been asked how far the log is and the index has come that far, so that what another server has granted is never
// refused here. A permission that another server has taken away is seen as soon as the log has brought it, which takes
// about a millisecond.
//
// Roles and bindings can only be changed so that nobody gets more than who changes them has (Escalation). Policy is what
// every cluster starts with.
package rbac
