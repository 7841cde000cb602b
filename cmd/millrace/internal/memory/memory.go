package memory

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/cputime"
)

const (
	// lookEvery is how often the process's CPU usage is checked.
	lookEvery = 15 * time.Second
	// quiet is the CPU time per check below which the process is idle. worth is the CPU time since the last release
	// from which releasing memory is worthwhile.
	quiet = lookEvery / 100
	worth = lookEvery / 50
)

// GiveBackWhenQuiet releases unused memory whenever the process has become idle after work, until ctx ends. The runtime
// by itself keeps 1.5 times the live heap of the busiest time for two minutes, and pages of the program for ever.
func GiveBackWhenQuiet(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	last := cputime.Process()
	for given := time.Duration(0); ; { // initialization continues for a while after the process has reported that it is ready
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		now := cputime.Process()
		if now-last < quiet && now-given > worth {
			GiveBack()
			given = cputime.Process()
		}
		last = now
	}
}
