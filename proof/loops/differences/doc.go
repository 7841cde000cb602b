// Package differences compares the control loops and the scheduler with kube-controller-manager and kube-scheduler:
// scenarios are played with the real ones, and again with ours, both on this repository's API server and its hollow
// nodes, and what they leave must be the same: objects, their owners of fields, events, and who wrote what.
//
// A scenario is a list of steps: requests of a user, each followed by a time in which nothing is written in the
// scenario's namespace. Then all of its objects are taken down, without what differs between any two runs. Many
// scenarios are played at the same time. Those that make nodes of their own are played one after the other, in a
// cluster without other nodes.
//
// The ordinary run plays the scenarios with our loops in a bubble of testing/synctest, so it does not depend on the
// machine's load, and compares with what was recorded: every fourth scenario, or all with -all. To record, the programs
// must be at hand:
//
//	go test ./proof/loops/differences -run Record -peers DIRECTORY -timeout 1h
//
// Random scenarios, from a seed, look for differences that nobody thought of: of workloads, of CronJobs, claims,
// autoscalers and budgets, and of nodes. Some of them are recorded, too:
//
//	go test ./proof/loops/differences -run Random -peers DIRECTORY -random 100 -timeout 30m
//
// One of them is repeated by its name, with the seed that the run has told:
//
//	MILLRACE_SEED=7000 go test ./proof/loops/differences -run Random -peers DIRECTORY -random 100 -scenarios '7003$'
//
// Some of the scenarios, and a few more for loops of which Kubernetes shows nothing, are played with faults too: all
// loops are killed before and after each kind of write of each of them, requests and answers are lost, and the API is
// away for ten minutes. What is left must be the same as without faults, and each loop must have been struck. With -all
// more objects are.
//
// Each scenario is recorded twice. What differs between the two runs depends on chance or on time, and is not compared.
package differences
