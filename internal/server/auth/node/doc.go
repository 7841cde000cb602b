// Package node decides what a kubelet may do, in the way of Kubernetes' node authorizer and its admission plugin
// NodeRestriction: a node reads and writes its own objects, and reads what the pods that are bound to it use.
//
// There is no graph beside the watch cache. Authorizer keeps the names of the pods of each node, caught up from the
// cache's history whenever it is asked, and reads everything else from the cache itself. A request is refused only
// after the cache has come as far as the store was when it was asked: a kubelet that has just been given a pod, by
// whichever server, can read what the pod needs.
//
// A caller may not assume that a permission ends at the very moment at which a pod goes: it ends when the cache has
// seen that.
package node
