package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// versions is the package whose variables tell the program what it is.
const versions = "github.com/millrace/millrace/cmd/millrace/internal/build"

// program returns the path of a target's program.
func (r *release) program(t target) string {
	return filepath.Join(r.work, t.os+"-"+t.arch, t.program())
}

// build builds the program for a target, unless it is there. Nothing of the machine gets into it: no path, no flag or
// feature of its environment, no C library.
func (r *release) build(ctx context.Context, t target) error {
	out := r.program(t)
	if _, err := os.Stat(out); err == nil {
		return nil
	}
	link := "-s -w -buildid= -X " + versions + ".commit=" + r.commit.id + " -X " + versions + ".date=" + r.commit.date.Format(time.RFC3339)
	if r.commit.tag != "" {
		link += " -X " + versions + ".version=" + strings.TrimPrefix(r.commit.tag, "v")
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-pgo="+r.pgo, "-ldflags="+link, "-o", out, "./cmd/millrace")
	c.Dir = r.source
	c.Env = append(plainEnvironment(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	c.Stderr = os.Stderr
	return c.Run()
}

// plainEnvironment returns the environment without what changes the code that Go makes.
func plainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOFLAGS", "GOEXPERIMENT", "GOAMD64", "GOARM64", "GODEBUG", "GOFIPS140", "GOWORK"}, name)
	})
}

// learnVersion builds the program for this machine, and asks it for its version: the tag's, or the one that is worked on.
// The same program writes the manual pages and the completions.
func (r *release) learnVersion(ctx context.Context) error {
	if err := r.step("build "+here.String()+", for this machine", func() error { return r.build(ctx, here) }); err != nil {
		return err
	}
	text, err := r.ask(ctx, "version", "-o", "json")
	if err != nil {
		return err
	}
	var told struct{ Version string }
	if err := json.Unmarshal(text, &told); err != nil || told.Version == "" {
		return fmt.Errorf("the program does not tell its version: %q", text)
	}
	r.version = told.Version
	return r.step("manual pages and completions", func() error { return r.pages(ctx) })
}

// ask runs the program of this machine.
func (r *release) ask(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, r.program(here), args...)
	c.Env = []string{"HOME=/home/you", "PATH=" + os.Getenv("PATH")} // help names directories of the home
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("millrace %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// completions are the files in which shells look for completions of a program.
var completions = map[string]string{"bash": "millrace", "zsh": "_millrace", "fish": "millrace.fish"}

// pages writes the manual pages and the completions.
func (r *release) pages(ctx context.Context) error {
	if _, err := r.ask(ctx, "man", filepath.Join(r.work, "man")); err != nil {
		return err
	}
	for shell, name := range completions {
		text, err := r.ask(ctx, "completion", shell)
		if err != nil {
			return err
		}
		path := filepath.Join(r.work, "completions", shell, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
