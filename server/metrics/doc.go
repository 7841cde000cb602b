// Package metrics counts what an API server does, for Prometheus, under Kubernetes' own names and labels.
//
// What is guaranteed:
//
//   - A cluster has a registry of its own: nothing is shared between clusters in one process, and nothing is global.
//   - Counting a request is a look-up and some atomic additions; no text is made for it. Text is made when somebody reads.
//   - What can be read when it is asked for (objects, windows, requests in flight) is not counted twice.
//   - Labels come from the catalogue, never from what a client sent, so that their number is bounded.
package metrics
