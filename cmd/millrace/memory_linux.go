package main

import (
	"bufio"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// giveBack returns what only the start needed: garbage, and those pages of the program itself that ran once. The kernel
// brings a page of the program back from its cache if it is wanted again.
func giveBack() {
	debug.FreeOSMemory()
	self, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		// Only what is mapped from the program's file and was never written to.
		if len(fields) < 6 || fields[5] != self || strings.Contains(fields[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, errStart := strconv.ParseUint(from, 16, 64)
		end, errEnd := strconv.ParseUint(to, 16, 64)
		if errStart == nil && errEnd == nil {
			syscall.Syscall(syscall.SYS_MADVISE, uintptr(start), uintptr(end-start), uintptr(syscall.MADV_DONTNEED))
		}
	}
}
