// Package statefulset maintains the pods of StatefulSets: each has an ordinal, a stable name, and its own claims.
//
// Guarantees: there are never two pods with one ordinal, because the ordinal is part of the pod's name and a pod is
// made again only when the old one is gone. With the pod management policy OrderedReady one pod is created or deleted
// at a time, and only while all pods before it are ready; with Parallel pods do not wait for each other. A rolling
// update goes from the highest ordinal down to the partition, and never makes more pods unavailable than the set
// allows. Claims outlive their pods unless the retention policy says otherwise.
package statefulset
