// Package server is the directory of the server wing: what stands behind the Kubernetes API, from the bytes in the
// store to the frames on a connection. Each of its packages is one room; proof/house at the module's root lists which
// room may import which.
//
// Nothing in it knows a control loop, the scheduler or a kubelet: those use the API like everybody else. Programs that
// only want a cluster import the module's root package instead.
package server
