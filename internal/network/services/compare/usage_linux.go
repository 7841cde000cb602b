package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// cpu returns the CPU time of a process, with nanosecond resolution, plus that of its children that have ended, in
// ticks: kube-proxy starts the program nft.
func cpu(pid int) time.Duration {
	const processScheduled = 2
	clock := ^int32(pid)<<3 | processScheduled // the kernel's number of a process's clock
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Duration(t.Nano())
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the process name before it may contain anything
	fields := strings.Fields(after)
	if len(fields) < 15 {
		return time.Duration(t.Nano())
	}
	user, _ := strconv.Atoi(fields[13])
	system, _ := strconv.Atoi(fields[14])
	return time.Duration(t.Nano()) + time.Duration(user+system)*tick
}

// memory returns the resident size of a process and its maximum, in KiB.
func memory(pid int) (rss, peak int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
		switch name {
		case "VmRSS":
			rss = n
		case "VmHWM":
			peak = n
		}
	}
	return rss, peak
}
