//go:build !linux

package fairness

import "runtime"

// yield does nothing: only Linux knows the niceness of a thread.
func yield() {}

// rest only lets other goroutines run.
func rest() { runtime.Gosched() }
