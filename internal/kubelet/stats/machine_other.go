//go:build !linux

package stats

import (
	"io/fs"
	"time"
)

// CPUTime is not known here.
func CPUTime() (total uint64, at time.Time, ok bool) { return 0, time.Time{}, false }

// MachineMemory is not known here.
func MachineMemory() *Memory { return nil }

// Disk is not known here.
func Disk(string) *FS { return nil }

// onDisk returns the size of a file, because its disk usage is not known here.
func onDisk(file fs.FileInfo) uint64 { return uint64(file.Size()) }

// Tasks are not known here.
func Tasks() *Processes { return nil }
