// Package backlog holds the pods that have no node yet.
//
// A pod is in exactly one place:
//
//   - active: to be tried now, the highest priority first, then who waits longest;
//   - backing off: to be tried again after a time that doubles with each attempt, or earlier
//     if no pod is active and it was no error that put it there;
//   - unschedulable: there was no node; tried again when something has changed
//     that the rules which refused it heed, and in any case after some minutes;
//   - gated: nobody may try it before its scheduling gates are gone;
//   - in flight: taken by Pop and not settled by Fail, Retry or Remove yet.
//
// A pod that is removed while it is in flight stays removed, whatever becomes
// of the attempt. A pod that changes while it is in flight comes back changed.
//
// A Queue is not safe for concurrent use and has no clock of its own: whoever
// drives it says what time it is.
package backlog
