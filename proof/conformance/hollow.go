//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// runHollow runs the tests that hollow nodes can pass, or those of them that take little time, on the suite's cluster
// or on one that it starts.
func runHollow(ctx context.Context, s suite, dir string, quick bool) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	k := kit{dir: dir}
	if err := k.buildPrograms(ctx, "e2e.test", "ginkgo", "kubectl"); err != nil {
		return err
	}
	if s.kubeconfig == "" {
		up, err := k.startHollow(ctx)
		if err != nil {
			return err
		}
		defer up.stop()
		s.kubeconfig = up.kubeconfig
		s.measured = append(s.measured, strconv.Itoa(up.command.Process.Pid))
	}
	left := slices.Clone(beyondHollow)
	if quick {
		left = append(left, lengthy...)
		s.repeats = 1 // beside the rest of a gate on two cores, a test may meet a time limit
	}
	s.skip = skipping(s.skip, left)
	return s.run(ctx, k)
}

// hollow is a running `millrace up` with hollow nodes, in memory.
type hollow struct {
	command    *exec.Cmd
	ended      chan error
	kubeconfig string
}

// hollowNodes is how many nodes there are: some tests want several.
const hollowNodes = "3"

func (k kit) startHollow(ctx context.Context) (*hollow, error) {
	defer step("starting hollow nodes")()
	program := k.path("millrace")
	if _, err := output(exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/millrace/millrace/cmd/millrace")); err != nil {
		return nil, err
	}
	h := &hollow{kubeconfig: k.path("kubeconfig"), ended: make(chan error, 1)}
	if err := os.Remove(h.kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.Create(k.path("up.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() // the program has a copy
	h.command = exec.Command(program, "up", "--data", "memory", "--listen", "127.0.0.1:0", "--nodes", hollowNodes, "--allow-privileged", "--kubeconfig", h.kubeconfig)
	h.command.Stdout, h.command.Stderr = log, log
	if err := h.command.Start(); err != nil {
		return nil, err
	}
	go func() { h.ended <- h.command.Wait() }()
	for range 300 {
		check := exec.CommandContext(ctx, k.bin("kubectl"), "--kubeconfig", h.kubeconfig, "wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
		if _, err := os.Stat(h.kubeconfig); err == nil && check.Run() == nil {
			return h, nil
		}
		select {
		case err := <-h.ended:
			return nil, fmt.Errorf("millrace up has ended: %w; its log is %s", err, log.Name())
		case <-time.After(100 * time.Millisecond):
		}
	}
	h.stop()
	return nil, errors.New("the nodes are not ready; the log is " + log.Name())
}

func (h *hollow) stop() {
	_ = h.command.Process.Signal(os.Interrupt)
	<-h.ended
}
