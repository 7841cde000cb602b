//go:build !linux

package stats

import "time"

// CPUTime is not known here.
func CPUTime() (total uint64, at time.Time, ok bool) { return 0, time.Time{}, false }

// MachineMemory is not known here.
func MachineMemory() *Memory { return nil }

// Disk is not known here.
func Disk(string) *FS { return nil }

// Tasks are not known here.
func Tasks() *Processes { return nil }
