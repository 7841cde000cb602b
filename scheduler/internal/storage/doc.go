// Package storage is the scheduler's picture of volumes: claims, volumes, classes, drivers and what nodes can attach.
//
// What it guarantees: an object that the scheduler has assumed (a volume for a claim, a node for a claim) is what readers get
// until the API shows a newer version of it, or until it is restored. So two pods never get the same volume while the first
// of them is still being bound.
//
// Objects are those of the informers and are read only. A Picture is not safe for concurrent use. The zero value is empty.
package storage
