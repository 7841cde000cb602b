package memory

import (
	"context"
	"time"
)

// A kubelet releases unused memory soon after its start, and then every few minutes. It has so little load that
// measuring it is not worthwhile, and releasing memory costs it 0.01 % of a core.
const (
	firstRest = 15 * time.Second
	maxRest   = 4 * time.Minute
)

// Tidy releases unused memory regularly.
func Tidy(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for rest := firstRest; ; rest = min(2*rest, maxRest) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			GiveBack()
			timer.Reset(rest)
		}
	}
}
