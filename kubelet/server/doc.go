// Package server is a node's HTTPS server: what the API server asks of a kubelet.
//
// What is guaranteed: nobody is answered, except on /healthz, whose certificate does not come from the given authority
// and does not carry one of the given names; when Run returns no request is being served and the port is free.
//
// The paths are those of a kubelet: /containerLogs/{namespace}/{pod}/{container}, /exec, /attach and /run with the
// same, /portForward/{namespace}/{pod}, each also with the pod's uid before the container, /pods, /healthz. Exec,
// attach and port forwarding speak SPDY and WebSocket, the latter up to v5.
package server
