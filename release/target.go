package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// target is a system and its processor, in Go's words.
type target struct{ os, arch string }

// all are the targets of a release.
var all = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// here is the machine that makes the release: its program writes the manual pages.
var here = target{runtime.GOOS, runtime.GOARCH}

func (t target) String() string { return t.os + "/" + t.arch }

// program returns the name of the program.
func (t target) program() string {
	if t.os == "windows" {
		return "millrace.exe"
	}
	return "millrace"
}

func names(targets []target) string {
	text := make([]string, len(targets))
	for i, t := range targets {
		text[i] = t.String()
	}
	return strings.Join(text, ",")
}

// choose returns the targets that a list names; all if it is empty.
func choose(list string) ([]target, error) {
	if list == "" {
		return all, nil
	}
	var chosen []target
	for _, name := range strings.Split(list, ",") {
		system, arch, _ := strings.Cut(name, "/")
		t := target{system, arch}
		if !slices.Contains(all, t) {
			return nil, fmt.Errorf("-targets: %q is none of %s", name, names(all))
		}
		chosen = append(chosen, t)
	}
	return chosen, nil
}
