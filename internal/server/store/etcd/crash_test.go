package etcd

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/server/store"
)

// crashDir is set in the process that is going to be killed; crashPrefix says where it writes.
const (
	crashDir    = "MILLRACE_TEST_CRASH_DIR"
	crashPrefix = "MILLRACE_TEST_CRASH_PREFIX"
)

// writeUntilKilled prints the number of each write after the store has acknowledged it.
func writeUntilKilled(dir, prefix string) {
	s, err := Embed(context.Background(), EmbedOptions{Dir: dir})
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for writer := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("%s/%d/%d", prefix, writer, i)
				rev, err := s.Create(context.Background(), key, []byte("value of "+key), 0)
				if err != nil {
					fmt.Println("failed", err)
					os.Exit(1)
				}
				fmt.Printf("wrote %s %d\n", key, rev)
			}
		})
	}
	wg.Wait()
}

func TestNothingAcknowledgedIsMissingAfterKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acknowledged := make(map[string]string)
	for life := range 2 { // the second process goes on with what the first one left
		for line := range crash(t, dir, fmt.Sprintf("/%d", life), 2000) {
			var key, rev string
			if n, _ := fmt.Sscanf(line, "wrote %s %s", &key, &rev); n != 2 {
				t.Fatalf("it says %q", line)
			}
			acknowledged[key] = rev
		}
		check(t, dir, maps.Clone(acknowledged))
	}
}

// crash runs the other process, kills it after that many writes, and returns every line that it printed.
func crash(t *testing.T, dir, prefix string, writes int) map[string]bool {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashDir+"="+dir, crashPrefix+"="+prefix)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(map[string]bool)
	for scan := bufio.NewScanner(out); scan.Scan(); {
		lines[scan.Text()] = true
		if len(lines) == writes/2 {
			if _, err := Embed(t.Context(), EmbedOptions{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
				t.Errorf("embed while another process runs: %v", err)
			}
		}
		if len(lines) == writes {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	if len(lines) < writes {
		t.Fatalf("it ended by itself after %d lines", len(lines))
	}
	return lines
}

func check(t *testing.T, dir string, acknowledged map[string]string) {
	t.Helper()
	start := time.Now()
	s := mustEmbed(t, dir)
	defer s.Close()
	t.Logf("%d acknowledged writes, open again after %v", len(acknowledged), time.Since(start))
	page, err := s.List(t.Context(), "/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if string(e.Value) != "value of "+e.Key {
			t.Errorf("%s holds %q", e.Key, e.Value)
		}
		if rev, ok := acknowledged[e.Key]; ok && rev != e.Revision.String() {
			t.Errorf("%s was acknowledged at %s and is there at %d", e.Key, rev, e.Revision)
		}
		delete(acknowledged, e.Key)
	}
	for key, rev := range acknowledged {
		t.Errorf("Durable: %s was acknowledged at %s and is missing", key, rev)
	}
}
