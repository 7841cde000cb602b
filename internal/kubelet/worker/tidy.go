package worker

import (
	"context"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// kept is how many runs of a container and how many sandboxes of a pod are kept for logs and statuses: the current one
// and the one before.
const kept = 2

// tidy removes older runs and sandboxes.
func (t *syncTask) tidy(ctx context.Context) error {
	seen := map[string]int{}
	for i := range t.state.Containers {
		run := &t.state.Containers[i]
		if seen[run.Name]++; seen[run.Name] > kept && run.State == container.Exited {
			if err := t.crew.Runtime.Remove(ctx, run.ID); err != nil {
				return err
			}
		}
	}
	for i := kept; i < len(t.state.Sandboxes); i++ {
		if s := &t.state.Sandboxes[i]; !s.Ready {
			if err := t.crew.Runtime.RemoveSandbox(ctx, s.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
