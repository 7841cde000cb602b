// Package storage is the scheduler's state of volumes: claims, volumes, classes, drivers and attachments.
//
// Guarantee: an object that the scheduler has assumed (a volume for a claim, a node for a claim) is returned to readers
// until the API shows a newer version, or until it is restored. So two pods never get the same volume while the first
// of them is being bound.
//
// Objects are shared with the informers and must not be modified. A State is not safe for concurrent use. The zero
// value is empty.
package storage
