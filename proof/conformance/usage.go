//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used: its resident memory now and at most, the part of it now that is no page of a file,
// and its CPU time.
type usage struct {
	command            string
	now, most, private int // KiB
	cpu                time.Duration
}

// clockTicks is the unit of CPU times in /proc, on all architectures that Go knows.
const clockTicks = 100

// usageOf returns the usage of a process by its ID. That of a process that has ended is zero.
func usageOf(id string) usage {
	process := filepath.Join("/proc", id)
	status, _ := os.ReadFile(filepath.Join(process, "status"))
	var u usage
	for line := range strings.Lines(string(status)) {
		name, text, _ := strings.Cut(line, ":")
		number, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
		switch name {
		case "Name":
			u.command = strings.TrimSpace(text)
		case "VmRSS":
			u.now = number
		case "VmHWM":
			u.most = number
		case "RssAnon":
			u.private = number
		}
	}
	stat, _ := os.ReadFile(filepath.Join(process, "stat"))
	if fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])); len(fields) > 12 {
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		u.cpu = time.Duration(user+system) * time.Second / clockTicks
	}
	return u
}

func (u *usage) add(v usage) {
	u.now, u.most, u.private, u.cpu = u.now+v.now, u.most+v.most, u.private+v.private, u.cpu+v.cpu
}

func (u usage) String() string {
	return fmt.Sprintf("%d MiB of resident memory at most, %d now (%d without pages of files), and CPU for %s", u.most>>10, u.now>>10, u.private>>10, u.cpu.Round(time.Second/10))
}

// printUsage prints what each of some processes has used, and their sum.
func printUsage(ids []string) {
	var sum usage
	for _, id := range ids {
		u := usageOf(id)
		fmt.Printf("%s (%s) has used %s\n", u.command, id, u)
		sum.add(u)
	}
	if len(ids) > 1 {
		fmt.Println("together they have used", sum)
	}
}
