// Package bootstrap maintains the objects that every cluster has and that the API servers themselves create. Like
// kube-apiserver, it creates missing objects when a server starts and checks again every minute.
//
// An object that was changed on purpose, and has the annotation that says so, is left alone. Several servers of a
// cluster may do this at the same time: each change is a compare-and-swap.
package bootstrap
