// Package container is the seam between the kubelet and what runs containers. Everything above it is the same for real
// containers and for pretended ones.
//
// What an implementation guarantees (and package conformance checks by these names):
//
//   - Truthful: Pod tells what is there at the time of the call; what was created shows in the next call.
//   - Remembered: containers that have exited stay visible, with their exit code, until they are removed.
//   - Announced: after each change of a container's or sandbox's state that nobody asked for, Events names its pod.
//     Names may be repeated and may come late, but the last change is always followed by a name.
//   - Graceful: Stop gives a container its grace to end by itself, and when it returns without an error the container
//     has exited.
//   - Resizable: Resize changes what a container that runs may use, and nothing else of it.
//   - Idempotent: stopping and removing what has stopped or is gone is no error.
//
// What a caller may not assume: that identifiers have any form, that containers outlive their sandbox, or that a
// runtime knows of pods that another process started.
package container
