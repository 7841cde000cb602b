// Package devices is the scheduler's picture of devices: claims, what drivers publish, and classes.
//
// What it guarantees: a device that a claim has, in the API or by the scheduler's own word, is among the allocated ones until
// the claim gives it back. What the scheduler has assumed of a claim counts until the API shows a newer version of it, or until
// it is restored.
//
// Objects are those of the informers and are read only. A Picture is not safe for concurrent use. The zero value is empty.
package devices
