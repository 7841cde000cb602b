// Command envtest runs the tests of controller-runtime with each of several directories for KUBEBUILDER_ASSETS, in
// turns, and prints how long they took and what failed. The tests are compiled before, so that only they are measured;
// as many packages run at a time as `go test` runs.
//
//	go run ./cmd/millrace assets /tmp/assets
//	go run ./bench/envtest --work /tmp/suite /tmp/assets $KUBEBUILDER_ASSETS
//
// The module is the one that this one uses. It is copied, because tests write beside their sources.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	module = "sigs.k8s.io/controller-runtime"
	// longest bounds the tests of a package.
	longest = 10 * time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var s suite
	flag.StringVar(&s.work, "work", "", "directory for the module and its tests (default: a temporary one)")
	flag.IntVar(&s.parallel, "p", runtime.GOMAXPROCS(0), "how many packages are tested at a time")
	flag.StringVar(&s.only, "only", "", "part of the names of the packages that are tested")
	turns := flag.Int("turns", 1, "how often the tests run with each directory")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "envtest: name at least one directory with kube-apiserver and etcd")
		os.Exit(2)
	}
	if err := s.run(ctx, flag.Args(), *turns); err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		os.Exit(1)
	}
}

// suite is the compiled tests of the module.
type suite struct {
	work, only string
	parallel   int
	packages   []string // their directories
}

const binary = "suite.test"

func (s *suite) run(ctx context.Context, directories []string, turns int) error {
	if s.work == "" {
		made, err := os.MkdirTemp("", "envtest-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		s.work = made
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	for range turns {
		for _, directory := range directories {
			at, err := filepath.Abs(directory)
			if err != nil {
				return err
			}
			if err := s.turn(ctx, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// build copies the module and compiles the tests of each package that has some.
func (s *suite) build(ctx context.Context) error {
	var found struct{ Dir string }
	out, err := command(ctx, "", "go", "list", "-m", "-json", module)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, &found); err != nil {
		return fmt.Errorf("where %s is: %w", module, err)
	}
	at := filepath.Join(s.work, "module")
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	if err := os.CopyFS(at, os.DirFS(found.Dir)); err != nil {
		return err
	}
	if err := filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if d.IsDir() || strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	}); err != nil {
		return err
	}
	out, err = command(ctx, at, "go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", "./pkg/...")
	if err != nil {
		return err
	}
	for _, p := range strings.Fields(string(out)) {
		if !strings.Contains(p, s.only) {
			continue
		}
		fmt.Fprintln(os.Stderr, "compiling", p)
		if _, err := command(ctx, p, "go", "test", "-vet=off", "-c", "-o", binary, "."); err != nil {
			return err
		}
		s.packages = append(s.packages, p)
	}
	return nil
}

// outcome is what came of the tests of a package.
type outcome struct {
	name   string
	took   time.Duration
	cpu    time.Duration // of the tests and of the servers that they started
	failed []string
}

// turn tests all packages with one directory.
func (s *suite) turn(ctx context.Context, assets string) error {
	began := time.Now()
	var (
		mu   sync.Mutex
		all  []outcome
		wait sync.WaitGroup
	)
	next := make(chan string)
	for range s.parallel {
		wait.Go(func() {
			for p := range next {
				o := s.test(ctx, p, assets)
				mu.Lock()
				all = append(all, o)
				mu.Unlock()
			}
		})
	}
	for _, p := range s.packages {
		next <- p
	}
	close(next)
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	took := time.Since(began)
	var sum, cpu time.Duration
	for _, o := range all {
		sum, cpu = sum+o.took, cpu+o.cpu
	}
	fmt.Printf("%s: %.0f s, one after the other %.0f s, of which %.0f s of CPU\n", assets, took.Seconds(), sum.Seconds(), cpu.Seconds())
	slices.SortFunc(all, func(a, b outcome) int { return int(b.took - a.took) })
	for _, o := range all {
		if o.took > time.Second || len(o.failed) > 0 {
			fmt.Printf("  %6.1f s  %6.1f s of CPU  %s\n", o.took.Seconds(), o.cpu.Seconds(), o.name)
		}
		for _, f := range o.failed {
			fmt.Println("           failed:", f)
		}
	}
	return nil
}

func (s *suite) test(ctx context.Context, at, assets string) outcome {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(at, binary))
	c.Dir, c.Env = at, append(os.Environ(), "KUBEBUILDER_ASSETS="+assets)
	c.Cancel, c.WaitDelay = func() error { return c.Process.Signal(os.Interrupt) }, 30*time.Second
	began := time.Now()
	out, err := c.CombinedOutput()
	name, _ := filepath.Rel(filepath.Join(s.work, "module"), at)
	o := outcome{name: name, took: time.Since(began)}
	if c.ProcessState != nil {
		o.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	if err != nil {
		o.failed = failures(out)
		if len(o.failed) == 0 {
			o.failed = []string{err.Error()}
		}
	}
	return o
}

// failures are the names of tests that failed, as Ginkgo and as Go print them.
func failures(out []byte) []string {
	var found []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(strings.NewReplacer("\x1b[38;5;9m", "", "\x1b[0m", "", "\x1b[1m", "").Replace(line))
		if strings.HasPrefix(line, "[FAIL]") || strings.HasPrefix(line, "--- FAIL:") {
			if !slices.Contains(found, line) {
				found = append(found, line)
			}
		}
	}
	return found
}

func command(ctx context.Context, directory string, words ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Dir = directory
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", strings.Join(words, " "), err), errors.New(said.String()))
	}
	return out, nil
}
