// Package connections hands requests on to what runs on nodes: logs, exec, attach and port-forward to the kubelet of a
// pod's node, and the proxies to nodes, pods and services.
//
// What is guaranteed: a caller's credentials are never handed on. An upgraded connection is copied byte for byte in both
// directions, whatever it speaks (WebSocket, SPDY); when one end closes, what it sent arrives, and then the other end is
// closed. A stream ends when its caller goes, when the kubelet or the backend goes, and when the server ends; after Close
// nothing of any stream is running.
//
// Kubelets know the API server by its client certificate. Their own serving certificates are believed without looking,
// as kube-apiserver does, unless Options.Authorities says who must have signed them: a check that falls back to belief would
// only look like one.
//
// Pods and services are only proxied to at addresses that belong to the network of pods: not at loopback or link-local
// addresses, which would be those of the server's own machine.
package connections
