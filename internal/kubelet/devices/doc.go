// Package devices lets drivers of dynamic resource allocation give a node's pods the devices of their resource claims.
//
// What is guaranteed: a pod starts only when each of its claims is allocated, is reserved for it, and has been prepared
// by the drivers of its devices; what the drivers then name as CDI devices, the containers that ask for the claim get.
// A claim is prepared once for all pods of the node that use it, and unprepared when the last of them has ended. That
// it was begun stands on disk before a driver is called, so that a kubelet that starts anew unprepares what nobody uses
// any more. The resource slices of a driver that has been away for half a minute are deleted, and those of all drivers
// when the kubelet starts: drivers publish them again.
//
// What may not be assumed: that a driver is called once for each of these (it is called again after each failure), or
// that the file of this package is that of another kubelet. A device whose driver does not tell its health, or has not
// done so for a while, has an unknown one.
package devices
