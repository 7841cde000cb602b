// Package kubelet makes a machine a node: it runs the pods of manifest files, of a URL and of an API server, through a
// container runtime, and tells of them.
//
// What is guaranteed:
//
//   - Alone: without an API server, pods of files and of a URL run in full.
//   - Kept: when a kubelet ends its containers go on; the next one finds them, and neither restarts nor forgets them.
//     While the API server or the runtime is away nothing is ended.
//   - Cleared: containers, volumes, logs and images that belong to nothing any more go away by themselves, but only
//     after every source of pods has been heard.
//   - Shown: a static pod has a mirror in the API; who deletes the mirror deletes nothing else, and it comes back.
//
// The parts are packages of their own: source (where pods come from), worker (from a pod to its containers), container
// (the seam to runtimes), cri and hollow (runtimes), furnish (volumes and environment), logs, node (registration and
// heartbeats) and server (what the API server asks).
package kubelet
