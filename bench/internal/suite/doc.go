// Package suite has the cases of the benchmark, runs them and reports.
//
// Targets are separate processes that run side by side and are measured in turns: each round of a case is one turn of
// every target, so a disturbance of the machine affects all. Measured is the server: its CPU time and memory, from
// outside. Every case is bounded in time and count. A case that delivers events checks that every watcher received each
// of them once and in order. Missing events are reported as lost.
package suite
