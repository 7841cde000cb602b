// Package daemonset runs one pod of a DaemonSet on each suitable node.
//
// Guarantees: a node has at most one working pod of a DaemonSet; during a rolling update with surge, two. A pod runs
// only on the node that it was made for. A rolling update never makes more pods unavailable, or adds more surplus pods,
// than the DaemonSet allows; pods that do not work are replaced first and do not count. A failed pod is replaced with
// growing delays. The loop waits until its cache shows its own writes, so it never creates a pod twice.
//
// A pod stays on a node that has become unsuitable, unless the node has a taint with the effect NoExecute that the pod
// does not tolerate.
package daemonset
