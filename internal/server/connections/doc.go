// Package connections forwards requests to nodes: logs, exec, attach and port-forward to the kubelet of a pod's node,
// and the proxies to nodes, pods and services.
//
// Guarantees: a client's credentials are never forwarded. An upgraded connection is copied byte for byte in both
// directions, whatever its protocol (WebSocket, SPDY). When one end closes, the bytes that it sent still arrive, and
// then the other end is closed. A stream ends when its client disconnects, when the kubelet or the backend closes it,
// and when the server ends; after Close no goroutine of a stream is running.
//
// Kubelets authenticate the API server by its client certificate. Their own serving certificates are not verified, as
// in kube-apiserver, unless Options.Authorities is set. There is no fallback from a failed verification to none,
// because that would only look secure.
//
// Pods and services are proxied to only at addresses in the pod network: never at loopback or link-local addresses,
// which belong to the server's own machine.
package connections
