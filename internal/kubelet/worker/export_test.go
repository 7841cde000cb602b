package worker

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Probes returns how many probes have results.
func (c *Crew) Probes() int {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	return len(c.probe.tally)
}

// Get asks an HTTP server as a probe does.
func (c *Crew) Get(ctx context.Context, ip string, h *corev1.HTTPGetAction) (bool, string, error) {
	return c.get(ctx, &corev1.Container{}, ip, h)
}
