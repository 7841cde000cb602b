// Package kubelet makes a machine a node: it runs the pods of manifest files, of a URL and of an API server through a
// container runtime, and reports their status.
//
// Guarantees:
//
//   - Standalone: without an API server, pods from files and from a URL run completely.
//   - Kept: containers keep running when the kubelet ends. The next kubelet finds them, and neither restarts nor loses
//     them. While the API server or the runtime cannot be reached, no container is stopped.
//   - Cleaned up: containers, volumes, logs and images that no pod needs any more are removed, but only after
//     every source of pods has reported.
//   - Mirrored: a static pod has a mirror pod in the API. Deleting the mirror pod does not stop the static pod, and the
//     mirror is made again.
//
// The parts are packages: source (where pods come from), worker (runs the containers of a pod), container (the
// interface to runtimes), cri and hollow (runtimes), furnish (volumes and environment), logs, node (registration and
// heartbeats) and server (the kubelet's own API).
package kubelet
