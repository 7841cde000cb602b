// Package devices is the scheduler's state of devices: claims, resource slices and classes.
//
// Guarantees: a device that a claim has, in the API or by assumption, is allocated until the claim releases it. A claim
// that the scheduler has assumed counts until the API shows a newer version, or until Restore.
//
// Objects are shared with the informers and must not be modified. A State is not safe for concurrent use. The zero
// value is empty.
package devices
