package proc

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// CPU is the processor time that a process has used. The kernel names the clock of a process by the complement of its
// id; it counts what /proc/PID/stat shows, which has ticks of 10 ms only.
func CPU(pid int) (time.Duration, error) {
	const processScheduled = 2
	clock := ^int32(pid)<<3 | processScheduled
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, errno)
	}
	return time.Duration(t.Nano()), nil
}

// MemoryOf is a process' memory.
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

// ResetPeak makes a process' peak begin anew at what it has now.
func ResetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// DieWithParent makes a child end when the one who started it does, however that happens.
func DieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
