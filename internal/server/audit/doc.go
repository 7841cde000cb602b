// Package audit writes down who did what, as a policy says: events of audit.k8s.io/v1, to a file and to a webhook.
//
// What is guaranteed:
//
//   - The first rule that matches a request decides how much is written of it; without one nothing is.
//   - In the modes blocking and blocking-strict an event is written before the request goes on. In the mode batch
//     nobody waits: events beyond the buffer are dropped and counted (apiserver_audit_error_total), never silently.
//   - Memory is bounded: by the buffer of events, and by 16 MiB for the body of a request or an answer, which only long
//     lists exceed. Such a list is left out, and the annotation audit.k8s.io/truncated says so.
//   - How a client encodes what it sends, and what it wants to get, changes nothing of what is written down.
//   - Close writes what waits, for some seconds at most.
package audit
