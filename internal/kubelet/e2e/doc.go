// Package e2e checks the kubelet from a pod to its containers, over pretended containers and over real ones. The latter
// need a container runtime: setup.sh sets one up, and its socket is told by MILLRACE_CRI_SOCKET.
//
// MILLRACE_E2E_PROGRAM names a program that was built before. MILLRACE_E2E_AWAY is how long the API server is away, 20s
// if it is not set: with 150s the loops give the node up when it is cut off, and with 190s the kubelet itself does when
// its runtime hangs. MILLRACE_E2E_CROWD is how many pods come at once, instead of 25.
package e2e
