//go:build !linux

package fairness

// yield does nothing: only Linux knows the niceness of a thread.
func yield() {}
