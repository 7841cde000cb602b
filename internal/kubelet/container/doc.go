// Package container is the interface between the kubelet and container runtimes. Everything above it works the same
// with real and with fake containers.
//
// Guarantees of an implementation (package conformance checks them by these names):
//
//   - Truthful: Pod returns the state at the time of the call. What a call has created is in the next result.
//   - Remembered: exited containers stay visible, with their exit code, until they are removed.
//   - Announced: after each change of a container or sandbox that was not requested, Events reports its pod.
//     Reports may be repeated and may be late, but the last change is always followed by a report.
//   - Graceful: Stop gives a container its grace period. When it returns without an error the container has exited.
//   - Resizable: Resize changes the resource limits of a running container and nothing else.
//   - Idempotent: stopping or removing what is stopped or gone is no error.
//
// A caller may not assume that identifiers have any form, that containers outlive their sandbox, or that a runtime
// knows the pods of another process.
package container
