package memory

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMappingsOfTheKernelAreParsed(t *testing.T) {
	for line, want := range map[string]mapping{
		"00400000-01000000 r-xp 00000000 fe:00 42 /bin/millrace": {0x400000, 0x1000000, true, true, "/bin/millrace"},
		"01000000-01100000 rw-p 00000000 fe:00 42 /bin/millrace": {0x1000000, 0x1100000, false, false, "/bin/millrace"},
		"c000000000-c000400000 rw-p 00000000 00:00 0":            {0xc000000000, 0xc000400000, false, false, ""},
		"7f1721009000-7f172100b000 r-xp 00000000 00:00 0 [vdso]": {0x7f1721009000, 0x7f172100b000, true, true, ""},
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

func TestTheProgramIsAllFilesWithCode(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	files := program()
	if !slices.Contains(files, self) {
		t.Errorf("%q lack %s", files, self)
	}
	for line := range strings.Lines(string(maps)) {
		if m, ok := parseMapping(strings.Fields(line)); ok && m.file != "" && m.code && !slices.Contains(files, m.file) {
			t.Errorf("%q lack %s", files, m.file)
		}
	}
}

func TestTheProgramIsMappedPageByPageIfTheKernelAllowsIt(t *testing.T) {
	if !mapSparingly() {
		t.Skip("it does not")
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	mapped, sparingly := 0, 0
	var current mapping
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		if next, ok := parseMapping(fields); ok {
			current = next
			continue
		}
		if fields[0] != "VmFlags:" || !current.readOnly || !slices.Contains(program(), current.file) || !slices.Contains(fields, "ex") {
			continue
		}
		mapped++
		if slices.Contains(fields, "uw") && slices.Contains(fields, "nh") { // uw: write faults are reported; nh: no huge pages
			sparingly++
		}
	}
	if mapped == 0 || sparingly != mapped {
		t.Errorf("%d of %d mappings of code", sparingly, mapped)
	}
}

func TestReleasedPagesOfAFileCanBeReadAgain(t *testing.T) {
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
		release([]string{path})
	}
}
