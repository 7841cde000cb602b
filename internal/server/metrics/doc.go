// Package metrics counts what an API server does, for Prometheus, with Kubernetes' names and labels.
//
// Guarantees:
//
//   - Each cluster has its own registry: clusters in one process share nothing, and nothing is global.
//   - Counting a request is a lookup and some atomic additions. Text is made only when the metrics are read.
//   - What can be read on demand (objects, windows, requests in flight) is not counted a second time.
//   - Labels come from the catalogue, never from what a client sent, so their number is bounded.
package metrics
