// Package proc tells what a process has used: CPU time and resident memory, as Linux accounts for them.
//
// CPU time is user and system time of all threads, those that have ended too, to the nanosecond; figures of several
// processes can be added. Elsewhere than on Linux every call fails with errors.ErrUnsupported.
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
	Anon int64 `json:"anon"` // what the process has written: heap, stacks
	File int64 `json:"file"` // pages of files, the program's own among them
	Peak int64 `json:"peak"` // the most that was resident at a time
}

// RSS is all that is resident.
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
