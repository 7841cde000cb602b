package proc

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// CPU returns the CPU time that a process has used. The kernel's number for the clock of a process is the complement of
// its id. The clock counts what /proc/PID/stat shows, where the resolution is only 10 ms.
func CPU(pid int) (time.Duration, error) {
	const processScheduled = 2
	clock := ^int32(pid)<<3 | processScheduled
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, errno)
	}
	return time.Duration(t.Nano()), nil
}

// MemoryOf returns the memory of a process.
func MemoryOf(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	m, err := parseStatus(text)
	if err != nil {
		return Memory{}, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return m, nil
}

// ResetPeak sets the peak memory of a process to its current memory.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// DieWithParent makes the kernel kill a child when its parent ends, for whatever reason.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
