// Package e2e checks the kubelet from a pod to its containers, over pretended containers and over real ones. The latter
// need a container runtime: setup.sh sets one up, and its socket is told by MILLRACE_CRI_SOCKET.
package e2e
