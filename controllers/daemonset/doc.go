// Package daemonset runs one pod of a DaemonSet on each node that it may run on.
//
// What is guaranteed: a node has at most one pod of a DaemonSet that works, and for as long as a rolling update with surge
// replaces it, two. A pod goes only to the node that it was made for. No more pods are unavailable, or surplus, because of a
// rolling update than the DaemonSet allows; pods that do not work are replaced first and cost nothing. A pod that failed is
// replaced more and more slowly. The loop's own writes are waited for, so that its late cache never makes it create twice.
//
// A node that a pod may not be placed on keeps its pod unless a taint with the effect NoExecute is not tolerated.
package daemonset
