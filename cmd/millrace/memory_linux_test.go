package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMappingsAreReadAsTheKernelWritesThem(t *testing.T) {
	for line, want := range map[string]mapping{
		"00400000-01000000 r-xp 00000000 fe:00 42 /bin/millrace": {0x400000, 0x1000000, true, "/bin/millrace"},
		"01000000-01100000 rw-p 00000000 fe:00 42 /bin/millrace": {0x1000000, 0x1100000, false, "/bin/millrace"},
		"c000000000-c000400000 rw-p 00000000 00:00 0":            {0xc000000000, 0xc000400000, false, ""},
	} {
		if got, ok := parseMapping(strings.Fields(line)); !ok || got != want {
			t.Errorf("%s: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"Rss:                 123 kB", "VmFlags: rd wr mr mw me ac", ""} {
		if _, ok := parseMapping(strings.Fields(line)); ok {
			t.Errorf("%q is taken for a mapping", line)
		}
	}
}

func TestPagesOfAFileThatAreGivenBackCanBeReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	text := strings.Repeat("0123456789abcdef", 4096)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pages, err := syscall.Mmap(int(f.Fd()), 0, len(text), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(pages)
	for range 2 {
		if string(pages) != text {
			t.Fatal("the file reads differently")
		}
		giveBack([]string{path})
	}
}
