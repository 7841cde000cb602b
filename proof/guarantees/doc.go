// Package guarantees proves that nothing that was acknowledged is lost, and nothing is seen twice, while a cluster has trouble. It has only tests.
package guarantees
