package etcdtest

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// KillAfter runs the binary of this test once more, with further environment variables, and kills it with signal 9 after
// it has printed some lines that begin with "wrote ", which it returns. The binary's TestMain does what the variables
// say. After each line seen is called.
func KillAfter(t testing.TB, lines int, seen func(n int), env ...string) []string {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env, child.Stderr = append(os.Environ(), env...), t.Output()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait() // it was killed
	}()
	var all []string
	for s := bufio.NewScanner(out); len(all) < lines; seen(len(all)) {
		if !s.Scan() || !strings.HasPrefix(s.Text(), "wrote ") {
			t.Fatalf("it ended by itself after %d lines: %s", len(all), s.Text())
		}
		all = append(all, s.Text())
	}
	return all
}
