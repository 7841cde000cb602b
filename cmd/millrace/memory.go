package main

import (
	"context"
	"syscall"
	"time"
)

const (
	// lookEvery is how often somebody looks whether the process has become quiet.
	lookEvery = 15 * time.Second
	// quiet is how much CPU time it uses between two looks when it is, and worth is how much it has to have used since
	// memory was given back last so that there may be something to give back.
	quiet = lookEvery / 100
	worth = lookEvery / 50
)

// giveBackWhenQuiet returns what work leaves behind, each time that it has come to an end, until ctx ends. By itself the
// collector keeps half as much again as there was at the busiest time, until two minutes later; and pages of files for
// ever.
func giveBackWhenQuiet(ctx context.Context, files []string) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	last := cpuTime()
	for given := time.Duration(0); ; { // the start goes on for a while after it has said that it is ready
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now := cpuTime()
		if now-last < quiet && now-given > worth {
			giveBack(files)
			given = cpuTime()
		}
		last = now
	}
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
