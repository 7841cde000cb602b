package memory

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

// GiveBack releases unused heap, and pages of the program, most of which only the start needed. The kernel reads a page
// from its file again when it is used. After the first call it reads the pages one by one; before, a start needs many of
// them quickly.
func GiveBack() {
	sparing.Do(func() { mapSparingly() })
	debug.FreeOSMemory()
	release(program())
}

// release releases the mapped pages of files.
func release(files []string) {
	for m := range mappings() {
		if slices.Contains(files, m.file) {
			m.release()
		}
	}
}

var sparing sync.Once

// program returns the files of the running program: its own, and those of C's library, if it was built with cgo.
func program() []string {
	var files []string
	for m := range mappings() {
		if m.code && !slices.Contains(files, m.file) {
			files = append(files, m.file)
		}
	}
	return files
}

// mappings ranges over the mappings of files whose pages can be released.
func mappings() iter.Seq[mapping] {
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
			// A page that was ever written to, as the dynamic linker does before it makes some pages read-only, exists
			// only in memory. So only mappings without anonymous pages are released. Anonymous comes after Rss in the
			// list, and is the last field needed.
			if len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0" && current.readOnly && current.file != "" && !yield(current) {
				return
			}
		}
	}
}

// mapping is a mapping in the address space.
type mapping struct {
	start, end     uintptr
	readOnly, code bool
	file           string
}

// parseMapping parses the first line of a mapping's description; for other lines ok is false.
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
	m.code = strings.Contains(fields[1], "x")
	if len(fields) == 6 && strings.HasPrefix(fields[5], "/") { // others, such as [vdso], are no files
		m.file = fields[5]
	}
	return m, true
}

func (m mapping) release() {
	syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, uintptr(syscall.MADV_DONTNEED))
}
