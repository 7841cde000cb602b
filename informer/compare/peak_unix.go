//go:build unix

package main

import (
	"runtime"
	"syscall"
)

// peakRSS returns the largest resident memory of the process so far, in bytes.
func peakRSS() uint64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	if runtime.GOOS == "darwin" {
		return uint64(usage.Maxrss)
	}
	return uint64(usage.Maxrss) << 10
}
