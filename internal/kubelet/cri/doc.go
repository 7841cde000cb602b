// Package cri runs containers through a runtime that implements CRI v1 on a socket, such as containerd. It implements
// container.Runtime and container.Images with their guarantees.
//
// In addition: nothing that matters is only in memory, so the next kubelet finds the containers that an earlier one
// started. Containers of other programs on the same socket are left alone, because only those with the kubelet's labels
// count. Pods get their addresses from the runtime's network, and share the node's network where the runtime has none.
package cri
