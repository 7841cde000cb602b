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
// brings a page of the program back from its file if it is wanted again.
func giveBack() {
	debug.FreeOSMemory()
	self, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var current mapping
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if next, ok := parseMapping(fields, self); ok {
			current = next
			continue
		}
		// A page that was ever written to, as the linker does before it makes some read-only, has no other home than
		// memory: only mappings without any are let go. Anonymous follows Rss in the list, and ends what is looked at.
		if len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && current.readOnly {
			current.release()
		}
	}
}

// mapping is a part of the address space.
type mapping struct {
	start, end uintptr
	readOnly   bool // and of the program's own file
}

// parseMapping reads the first line of a mapping's description; others are not ok.
func parseMapping(fields []string, self string) (m mapping, ok bool) {
	if len(fields) < 5 || !strings.Contains(fields[0], "-") {
		return m, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	start, errStart := strconv.ParseUint(from, 16, 64)
	end, errEnd := strconv.ParseUint(to, 16, 64)
	if errStart != nil || errEnd != nil {
		return m, false
	}
	m.start, m.end = uintptr(start), uintptr(end)
	m.readOnly = len(fields) == 6 && fields[5] == self && !strings.Contains(fields[1], "w")
	return m, true
}

func (m mapping) release() {
	syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, uintptr(syscall.MADV_DONTNEED))
}
