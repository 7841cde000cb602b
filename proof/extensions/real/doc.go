// Package real proves that published extension API servers work behind the aggregation as they are: Kubernetes' sample
// API server, and metrics-server. The tests build both from their modules, run them as processes, and kill them.
// README.md says how to run the tests.
package real
