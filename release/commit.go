package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// commit is what a release is made from.
type commit struct {
	id   string
	tag  string // of a version, such as v0.1.0; empty in a snapshot
	date time.Time
}

// readCommit reads the state of a repository. A release has a tag, and nothing that differs from it.
func readCommit(ctx context.Context, repository string, snapshot bool) (c commit, err error) {
	git := func(args ...string) string {
		out, failed := exec.CommandContext(ctx, "git", append([]string{"-C", repository}, args...)...).Output()
		if exit := new(exec.ExitError); errors.As(failed, &exit) {
			failed = fmt.Errorf("git %s: %w: %s", args[0], failed, strings.TrimSpace(string(exit.Stderr)))
		}
		err = errors.Join(err, failed)
		return strings.TrimSpace(string(out))
	}
	c.id = git("rev-parse", "HEAD")
	date := git("show", "-s", "--format=%cI", "HEAD")
	tags, changed := git("tag", "--points-at", "HEAD", "--list", "v*"), git("status", "--porcelain")
	if err != nil {
		return c, err
	}
	if c.date, err = time.Parse(time.RFC3339, date); err != nil {
		return c, err
	}
	c.date = c.date.UTC()
	if snapshot {
		return c, nil
	}
	switch lines := strings.Fields(tags); {
	case changed != "":
		return c, fmt.Errorf("files differ from HEAD: commit or remove them, or make a -snapshot\n%s", changed)
	case len(lines) != 1:
		return c, fmt.Errorf("HEAD has %d tags of a version, want one such as v0.1.0, or -snapshot", len(lines))
	default:
		c.tag = lines[0]
	}
	return c, nil
}
