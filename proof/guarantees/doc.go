// Package guarantees tests that no acknowledged write is lost, and no event is delivered twice, while a cluster has
// faults. It has only tests.
package guarantees
