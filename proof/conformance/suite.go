//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// suite is one run of tests.
type suite struct {
	focus, skip string
	procs       int
	kubeconfig  string
	repeats     int      // how often a test that fails is repeated
	measured    []string // the IDs of processes
}

// alone is the labels of the tests that want a cluster for themselves.
const alone = "Serial || Disruptive"

// progressEvery is how often a run says how far it is.
const progressEvery = 30 * time.Second

// run runs first the tests that may run at the same time, then the others, and prints what failed and how many passed.
func (s suite) run(ctx context.Context, k kit) error {
	reports := k.path("report")
	if err := errors.Join(os.RemoveAll(reports), os.MkdirAll(reports, 0o755)); err != nil {
		return err
	}
	if err := os.WriteFile(k.path("repositories.yaml"), []byte(repositories), 0o644); err != nil {
		return err
	}
	var total outcome
	for _, p := range []struct {
		name   string
		procs  int
		labels string
	}{
		{"together", s.procs, "!(" + alone + ")"},
		{"alone", 1, alone},
	} {
		o, err := s.part(ctx, k, p.name, p.procs, []string{"--focus=" + s.focus, "--skip=" + s.skip, "--label-filter=" + p.labels})
		if err != nil {
			return err
		}
		total.passed += o.passed
		total.failed = append(total.failed, o.failed...)
		total.repeated = append(total.repeated, o.repeated...)
	}
	for _, r := range total.repeated {
		fmt.Println("passed only when repeated:", r)
	}
	slices.Sort(total.failed)
	for _, f := range total.failed {
		fmt.Println("failed:", f)
	}
	printUsage(s.measured)
	fmt.Printf("%d passed, %d failed\n", total.passed, len(total.failed))
	if len(total.failed) > 0 || total.passed == 0 {
		return errors.New("not all tests passed; their logs are in " + reports)
	}
	return nil
}

func (s suite) part(ctx context.Context, k kit, name string, procs int, flags []string) (outcome, error) {
	defer step("running the tests that run %s", name)()
	report, log := k.path("report", name+".json"), k.path("report", name+".log")
	args := append([]string{
		"run", fmt.Sprint("--procs=", procs), "--no-color", "--silence-skips", "--timeout=3h", "--poll-progress-after=0",
		"--output-dir=" + k.path("report"), "--json-report=" + name + ".json", fmt.Sprint("--flake-attempts=", s.repeats+1),
	}, flags...)
	args = append(args, k.bin("e2e.test"), "--", "--kubeconfig="+s.kubeconfig, "--provider=skeleton", "--num-nodes=2", // else only one of the processes knows it
		"--report-dir="+k.path("report"))
	f, err := os.Create(log)
	if err != nil {
		return outcome{}, err
	}
	defer f.Close()
	c := exec.CommandContext(ctx, k.bin("ginkgo"), args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func(s syscall.Signal) error { return syscall.Kill(-c.Process.Pid, s) }
	c.Cancel = func() error { return group(syscall.SIGTERM) } // so that the tests remove what they made
	c.WaitDelay = time.Minute
	c.Stdout, c.Stderr = f, f
	c.Env = append(os.Environ(), "KUBE_TEST_REPO_LIST="+k.path("repositories.yaml"), "PATH="+k.path("bin")+":"+os.Getenv("PATH"))
	ended := make(chan struct{})
	go sayProgress(log, ended)
	runErr := c.Run()
	close(ended)
	if c.Process != nil {
		_ = group(syscall.SIGKILL) // what has not ended in that time
	}
	if ctx.Err() != nil {
		return outcome{}, ctx.Err()
	}
	o, err := readReport(report)
	if errors.Is(err, fs.ErrNotExist) {
		return outcome{}, fmt.Errorf("the tests wrote no report: %w; see %s", runErr, log)
	}
	return o, err
}

// sayProgress prints how many tests a log tells of, until ended is closed.
func sayProgress(log string, ended <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	start := time.Now()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if b, err := os.ReadFile(log); err == nil {
			text := string(b)
			fmt.Printf("%6s: %d tests have ended, %d of them failed\n", time.Since(start).Round(time.Second), strings.Count(text, "•"), strings.Count(text, "• [FAILED]"))
		}
	}
}

// outcome is what came of some tests.
type outcome struct {
	passed   int
	failed   []string
	repeated []string // those that passed, but not at once
}

// spec is a test in ginkgo's report.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	NumAttempts             int
	Failure                 struct{ Message string }
}

func readReport(file string) (outcome, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return outcome{}, err
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(b, &suites); err != nil {
		return outcome{}, err
	}
	var o outcome
	for _, s := range suites {
		for _, test := range s.SpecReports {
			o.add(test)
		}
	}
	return o, nil
}

func (o *outcome) add(s spec) {
	name := strings.Join(s.ContainerHierarchyTexts, " ") + " " + s.LeafNodeText
	switch s.State {
	case "passed":
		if s.LeafNodeType == "It" {
			o.passed++
		}
		if s.NumAttempts > 1 {
			o.repeated = append(o.repeated, name)
		}
	case "failed", "panicked", "timedout", "interrupted", "aborted":
		why, _, _ := strings.Cut(strings.TrimSpace(s.Failure.Message), "\n")
		o.failed = append(o.failed, fmt.Sprintf("%s\n        %.200s", name, why))
	}
}
