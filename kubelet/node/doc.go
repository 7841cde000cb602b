// Package node makes nodes known to the API server and keeps their heartbeats: one node of a machine, or thousands.
//
// What is guaranteed: a node is registered once and, if it exists already, brought up to date without touching what
// others have set (taints, cordon, labels of their own); its lease is renewed every ten seconds and its status written
// every five minutes and whenever it changes; however many nodes there are, a fixed number of goroutines does it, and
// spreads the requests over the time.
package node
