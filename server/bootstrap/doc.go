// Package bootstrap keeps the objects that every cluster has and that the API servers themselves look after: as Kubernetes, it
// makes what is missing when a server starts and looks again every minute.
//
// An object that somebody has changed on purpose, and says so with its annotation, stays as it is. Several servers of a cluster
// may do this at the same time: each change is a compare-and-swap.
package bootstrap
