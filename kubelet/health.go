package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	healthEvery = 5 * time.Second
	// detailEvery is how often a runtime that works is asked for its version and its images.
	detailEvery = time.Minute
	// mostImages is how many images a node's status names.
	mostImages = 50
	// mostSilence is how long containers may not have been looked at before the node is not ready: the kubelet's word for
	// who looks is PLEG.
	mostSilence = 3 * time.Minute
)

// health knows whether the runtime works. It is a loop.Runner.
type health struct {
	runtime Runtime
	log     *slog.Logger
	ready   func(bool) // hears when the node becomes ready, or no longer is
	// changed hears when what is reported becomes something else.
	changed chan struct{}
	// detailed is when the runtime was asked for details. Only look touches it.
	detailed time.Time

	mu      sync.Mutex // guards what follows
	problem string
	network string // why pods get no network
	version string
	images  []corev1.ContainerImage
}

func newHealth(r Runtime, log *slog.Logger, ready func(bool)) *health {
	return &health{runtime: r, log: log, ready: ready, changed: make(chan struct{}, 1), problem: "container runtime status check may not have completed yet"}
}

// Run looks at the runtime until ctx ends.
func (h *health) Run(ctx context.Context) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		h.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (h *health) look(ctx context.Context) {
	problem, network := h.runtime.Ready(ctx)
	if silence := time.Since(h.runtime.Compared()); silence > mostSilence {
		problem = both(problem, fmt.Sprintf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", silence.Round(time.Millisecond), mostSilence))
	}
	version := ""
	var images []corev1.ContainerImage
	if problem == "" && (h.detailed.IsZero() || time.Since(h.detailed) >= detailEvery) { // one that does not answer is not asked for more
		if v, err := h.runtime.Version(ctx); err == nil {
			version = fmt.Sprintf("%s://%s", v.Name, v.Version)
		}
		images = h.list(ctx)
		h.detailed = time.Now()
	}
	if problem != "" {
		h.detailed = time.Time{} // it may come back as another
	}
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	differs := problem != h.problem || network != h.network || version != "" && (version != h.version || len(images) != len(h.images))
	if problem != h.problem || network != h.network {
		h.log.Info("container runtime", "problem", problem, "network", network)
	}
	if now := both(problem, network) == ""; now != (both(h.problem, h.network) == "") {
		h.ready(now)
	}
	h.problem, h.network = problem, network
	if version != "" {
		h.version, h.images = version, images
	}
	h.mu.Unlock()
	if differs {
		h.tell()
	}
}

// both are two problems, of which each may be none.
func both(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "":
		return first
	}
	return fmt.Sprintf("[%s, %s]", first, second)
}

// tell has the node's status written soon.
func (h *health) tell() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

func (h *health) list(ctx context.Context) []corev1.ContainerImage {
	ctx, cancel := context.WithTimeout(ctx, healthEvery)
	defer cancel()
	all, err := h.runtime.List(ctx)
	if err != nil {
		return nil
	}
	var images []corev1.ContainerImage
	for _, i := range all[:min(len(all), mostImages)] {
		images = append(images, corev1.ContainerImage{Names: append(append([]string(nil), i.Digests...), i.Names...), SizeBytes: i.Bytes})
	}
	return images
}

// report is what the node's status says: why the node is not ready, and what runtime and images it has.
func (h *health) report() (notReady, version string, images []corev1.ContainerImage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return both(h.problem, h.network), h.version, h.images
}

// works says what keeps the runtime from working, whether pods get a network or not.
func (h *health) works() (problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}
