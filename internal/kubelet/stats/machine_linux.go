package stats

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ticks is the number of clock ticks per second in /proc/stat. Linux always reports 100.
const ticks = 100

// CPUTime returns the CPU time that the machine has used since it started, and when it was read.
func CPUTime() (total uint64, at time.Time, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, time.Time{}, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // skip the name, idle, iowait, and the guest times, which are part of user time
			continue
		}
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return 0, time.Time{}, false
		}
		total += n
	}
	return total * uint64(time.Second/ticks), time.Now(), true
}

// MachineMemory returns the memory usage of the machine.
func MachineMemory() *Memory {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil
	}
	found := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 10, 64); err == nil {
			found[strings.TrimSuffix(words[0], ":")] = n << 10
		}
	}
	total, available, anon := found["MemTotal"], found["MemAvailable"], found["AnonPages"]
	if total == 0 || available > total {
		return nil
	}
	usage := total - found["MemFree"]
	return &Memory{Time: moment(time.Now()), Available: &available, Usage: &usage, WorkingSet: total - available, RSS: &anon}
}

// Disk returns the usage of the file system that holds a path.
func Disk(path string) *FS {
	var fs unix.Statfs_t
	if path == "" || unix.Statfs(path, &fs) != nil || fs.Blocks == 0 {
		return nil
	}
	size := uint64(fs.Bsize)
	available, capacity, used := fs.Bavail*size, fs.Blocks*size, (fs.Blocks-fs.Bfree)*size
	inodesUsed := fs.Files - fs.Ffree
	return &FS{Time: moment(time.Now()), Available: &available, Capacity: &capacity, Used: &used, InodesFree: &fs.Ffree, Inodes: &fs.Files, InodesUsed: &inodesUsed}
}

// Tasks returns the number of processes and threads, and its limit.
func Tasks() *Processes {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return nil
	}
	words := strings.Fields(string(load))
	if len(words) < 4 {
		return nil
	}
	_, all, _ := strings.Cut(words[3], "/")
	current, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return nil
	}
	most := int64(0)
	for _, path := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && (most == 0 || n < most) {
			most = n
		}
	}
	if most == 0 {
		return nil
	}
	return &Processes{Time: moment(time.Now()), Most: most, Current: current}
}

// onDisk returns the disk usage of a file. Holes use nothing.
func onDisk(file fs.FileInfo) uint64 {
	if s, ok := file.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Blocks) * 512
	}
	return uint64(file.Size())
}
