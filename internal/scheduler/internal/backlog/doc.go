// Package backlog holds the pods that have no node yet.
//
// A pod is in exactly one stage:
//
//   - active: to be tried now, the highest priority first, then the longest waiting;
//   - backing off: to be tried again after a time that doubles with each attempt, or earlier if no pod is active and
//     the reason was not an error;
//   - unschedulable: there was no node; it is tried again after a change that matters to the rules which refused it,
//     and in any case after some minutes;
//   - gated: it must not be tried before its scheduling gates are removed;
//   - in flight: returned by Pop, and not yet settled by Fail, Retry or Remove.
//
// A pod that is removed while it is in flight stays removed, whatever the result of the attempt. If a pod changes while
// it is in flight, its new version comes back into the queue.
//
// A Queue is not safe for concurrent use. It has no clock: the caller passes the time.
package backlog
