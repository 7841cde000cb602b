// Package statefulset keeps the pods of a StatefulSet: each has a number, a name that stays, and claims of its own.
//
// What is guaranteed: there are never two pods of one number at the same time, since a number is part of the pod's name and a
// pod is made anew only when the old one is gone. With the pod management policy OrderedReady one pod is created or deleted at a time, and only while
// all pods before it are ready; with Parallel nobody waits for anybody. A rolling update goes from the highest number down to
// the partition, and never lets more pods be unavailable than the set allows. Claims outlive their pods unless the retention
// policy says otherwise.
package statefulset
