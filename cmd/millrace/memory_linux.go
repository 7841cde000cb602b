package main

import (
	"bufio"
	"iter"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// giveBack returns garbage, and those pages of files that were used once: the program's own, most of which only the start
// needed, and the files named. The kernel brings a page back from its file if it is wanted again, and of the program's own
// from the first time on no others with it: not before, because a start needs many, and fast.
func giveBack(files []string) {
	sparing.Do(func() { mapSparingly() })
	debug.FreeOSMemory()
	for m := range mappings(append(slices.Clone(files), program()...)) {
		m.release()
	}
}

var sparing sync.Once

// program is the file that runs.
func program() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self}
}

// mappings are the parts of the address space that show files as they are.
func mappings(files []string) iter.Seq[mapping] {
	return func(yield func(mapping) bool) {
		maps, err := os.Open("/proc/self/smaps")
		if err != nil {
			return
		}
		defer maps.Close()
		var current mapping
		for lines := bufio.NewScanner(maps); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if next, ok := parseMapping(fields); ok {
				current = next
				continue
			}
			// A page that was ever written to, as the linker does before it makes some read-only, has no other home than
			// memory: only mappings without any count. Anonymous follows Rss in the list, and ends what is looked at.
			if len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && current.readOnly && slices.Contains(files, current.file) && !yield(current) {
				return
			}
		}
	}
}

// mapping is a part of the address space.
type mapping struct {
	start, end uintptr
	readOnly   bool
	file       string
}

// parseMapping reads the first line of a mapping's description; others are not ok.
func parseMapping(fields []string) (m mapping, ok bool) {
	if len(fields) < 5 || !strings.Contains(fields[0], "-") {
		return m, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	start, errStart := strconv.ParseUint(from, 16, 64)
	end, errEnd := strconv.ParseUint(to, 16, 64)
	if errStart != nil || errEnd != nil {
		return m, false
	}
	m.start, m.end, m.readOnly = uintptr(start), uintptr(end), !strings.Contains(fields[1], "w")
	if len(fields) == 6 {
		m.file = fields[5]
	}
	return m, true
}

func (m mapping) release() {
	syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, uintptr(syscall.MADV_DONTNEED))
}
