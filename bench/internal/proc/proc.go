// Package proc reads the CPU time and the resident memory of processes, on Linux.
//
// CPU time is user and system time of all threads, including those that have ended, with nanosecond resolution. The
// figures of several processes can be added. On other systems every call fails with errors.ErrUnsupported.
package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Memory is resident memory in bytes.
type Memory struct {
	Anon int64 `json:"anon"` // anonymous memory: heap and stacks
	File int64 `json:"file"` // pages of files, including the program's own
	Peak int64 `json:"peak"` // the maximum resident memory
}

// RSS returns all resident memory.
func (m Memory) RSS() int64 { return m.Anon + m.File }

// Add adds another process.
func (m Memory) Add(o Memory) Memory {
	return Memory{m.Anon + o.Anon, m.File + o.File, m.Peak + o.Peak}
}

// parseStatus reads /proc/PID/status.
func parseStatus(text []byte) (Memory, error) {
	var m Memory
	fields := map[string]*int64{"RssAnon": &m.Anon, "RssFile": &m.File, "VmHWM": &m.Peak}
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		into, ok := fields[name]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("%s: %w", name, err)
		}
		*into = n << 10
		found++
	}
	if found != len(fields) {
		return Memory{}, fmt.Errorf("%d of %d fields found: the process may have ended", found, len(fields))
	}
	return m, nil
}
