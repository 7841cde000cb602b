// Package cri runs containers through a runtime that speaks CRI v1 on a socket, such as containerd. It is a
// container.Runtime and container.Images; what those promise is promised here.
//
// What is guaranteed besides: nothing is remembered here that matters, so that what a kubelet started is found again by
// the next one; pods of others on the same socket are left alone, since only what carries this package's labels counts.
// Pods get their addresses from the runtime's network, and share the node's network where the runtime has none.
package cri
