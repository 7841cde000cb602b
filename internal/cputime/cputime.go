// Package cputime tells how much CPU time the process has used, on each system that Millrace is built for. Other work on
// the machine affects it less than the time that passes.
package cputime

import "time"

// Process returns the CPU time of the process, of the system on its behalf included; zero if the system does not tell it.
func Process() time.Duration { return process() }
