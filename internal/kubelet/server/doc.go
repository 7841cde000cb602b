// Package server is a kubelet's HTTPS server, for requests of the API server, and of programs that collect metrics.
//
// Guarantees: except on /healthz, a client is served only if its certificate is signed by the given CA and has one of
// the given common names, or if the API server says so: who has a token (TokenReview), and whether they, or the subject
// of another certificate of that CA, may do it (SubjectAccessReview of nodes/metrics, stats, log, pods, configz or
// proxy). If the API server does not answer, nobody else is served. Its answers are kept for up to five minutes. When
// Run returns, no request is running and the port is free.
//
// The paths are those of a kubelet: /containerLogs/{namespace}/{pod}/{container}, /exec, /attach and /run with the
// same, /portForward/{namespace}/{pod}, each also with the pod's UID before the container, /pods, /healthz. Exec,
// attach and port forwarding use SPDY or WebSocket, the latter up to v5.
package server
