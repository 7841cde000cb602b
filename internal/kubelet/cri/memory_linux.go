package cri

import (
	"sync"

	"golang.org/x/sys/unix"
)

// totalMemory returns the memory of the machine, or 0.
var totalMemory = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
})
