// Package server is a kubelet's HTTPS server, for requests of the API server.
//
// Guarantees: except on /healthz, a client is served only if its certificate is signed by the given CA and has one of the given
// common names. When Run returns, no request is running and the port is free.
//
// The paths are those of a kubelet: /containerLogs/{namespace}/{pod}/{container}, /exec, /attach and /run with the same,
// /portForward/{namespace}/{pod}, each also with the pod's UID before the container, /pods, /healthz. Exec, attach and port
// forwarding use SPDY or WebSocket, the latter up to v5.
package server
