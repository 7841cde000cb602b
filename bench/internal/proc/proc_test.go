package proc

import (
	"os"
	"runtime"
	"testing"
)

func TestStatusIsRead(t *testing.T) {
	m, err := parseStatus([]byte("Name:\tx\nVmHWM:\t   30 kB\nVmRSS:\t   25 kB\nRssAnon:\t   20 kB\nRssFile:\t    5 kB\nThreads:\t1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Memory{Anon: 20 << 10, File: 5 << 10, Peak: 30 << 10}); m != want || m.RSS() != 25<<10 {
		t.Errorf("got %+v", m)
	}
	for _, bad := range []string{"", "Name:\tx\nState:\tZ (zombie)\n", "VmHWM:\tmuch\n"} {
		if _, err := parseStatus([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestProcessIsMeasured(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells")
	}
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 1_000_000 {
		runtime.KeepAlive(new(int))
	}
	after, err := CPU(os.Getpid())
	if err != nil || after <= before {
		t.Errorf("CPU time went from %v to %v: %v", before, after, err)
	}
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.Anon <= 0 || m.Peak <= 0 {
		t.Errorf("memory %+v, %v", m, err)
	}
}
