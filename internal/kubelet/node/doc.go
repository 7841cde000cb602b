// Package node registers nodes with the API server and keeps their heartbeats: one node of a machine, or thousands.
//
// Guarantees: a node is registered once. If it exists already it is updated, without changing what others have set
// (taints, cordon, other labels). Its lease is renewed every ten seconds. Its status is written every five minutes and
// whenever it changes. A fixed number of goroutines does this for any number of nodes, and spreads the requests over
// time.
package node
