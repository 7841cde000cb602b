package loops_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is the command, built once for all tests of this process.
var built struct {
	sync.Once
	directory string
	err       error
}

// binary returns the path of the command.
func binary(t testing.TB) string {
	t.Helper()
	built.Do(func() {
		if built.directory, built.err = os.MkdirTemp("", "millrace-proof-"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", built.directory, "github.com/millrace/millrace/cmd/millrace").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.directory, "millrace")
}

// spawn starts the command. Only its errors are printed. The caller must stop it.
func spawn(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	return run(t, binary(t), args...)
}

// run starts a program. Only its errors are printed. The caller must stop it.
func run(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = io.Discard, os.Stderr
	dieWithParent(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// kill kills a process with SIGKILL.
func kill(t testing.TB, c *exec.Cmd) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil && !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("it ended before it was killed: %v", err)
	}
}
