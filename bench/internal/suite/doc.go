// Package suite has the cases of the benchmark, runs them and reports.
//
// Targets run side by side as processes of their own, and take turns: each round of a case is one turn of every target, so
// that what disturbs the machine disturbs all. What is measured is the server's: its CPU time and memory, from outside.
// Every case is bounded in time and count. A case that delivers events checks that every watcher saw each of them once and in
// order; what is missing is reported as lost, never left out of the account.
package suite
