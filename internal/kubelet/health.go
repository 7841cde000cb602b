package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/kubelet/container"
)

const (
	healthEvery = 5 * time.Second
	// detailEvery is how often version and images are read from a runtime that works.
	detailEvery = time.Minute
	// maxSilence is how old the last comparison of containers may be before the node is not ready. Kubernetes calls
	// this check PLEG.
	maxSilence = 3 * time.Minute
)

// health tracks whether the runtime works. It is a loop.Runner.
type health struct {
	runtime Runtime
	most    int // images in the node's status; negative: all
	log     *slog.Logger
	ready   func(bool) // called when the node becomes ready or not ready
	// changed receives a value when the result of report has changed.
	changed chan struct{}
	// detailed is when version and images were read last. Only look uses it.
	detailed time.Time

	mu      sync.Mutex // guards the fields below
	problem string
	network string            // why pods get no network
	about   container.Version // nothing is known yet if it has no name
	images  []corev1.ContainerImage
}

func newHealth(r Runtime, most int, log *slog.Logger, ready func(bool)) *health {
	return &health{runtime: r, most: most, log: log, ready: ready, changed: make(chan struct{}, 1), problem: "container runtime status check may not have completed yet"}
}

// Run checks the runtime until ctx ends.
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
	if silence := time.Since(h.runtime.Compared()); silence > maxSilence {
		problem = both(problem, fmt.Sprintf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", silence.Round(time.Millisecond), maxSilence))
	}
	var about container.Version
	var images []corev1.ContainerImage
	if problem == "" && (h.detailed.IsZero() || time.Since(h.detailed) >= detailEvery) { // a runtime that does not answer is asked nothing more
		if v, err := h.runtime.Version(ctx); err == nil {
			about = v
		}
		images = h.list(ctx)
		h.detailed = time.Now()
	}
	if problem != "" {
		h.detailed = time.Time{} // the runtime may come back with another version
	}
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	differs := problem != h.problem || network != h.network || about.Name != "" && (!reflect.DeepEqual(about, h.about) || len(images) != len(h.images))
	if problem != h.problem || network != h.network {
		h.log.Info("container runtime", "problem", problem, "network", network)
	}
	if now := both(problem, network) == ""; now != (both(h.problem, h.network) == "") {
		h.ready(now)
	}
	h.problem, h.network = problem, network
	if about.Name != "" {
		h.about, h.images = about, images
	}
	h.mu.Unlock()
	if differs {
		h.tell()
	}
}

// both joins two problems, each of which may be empty.
func both(first, second string) string {
	switch {
	case first == "":
		return second
	case second == "":
		return first
	}
	return fmt.Sprintf("[%s, %s]", first, second)
}

// tell schedules an update of the node's status.
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
	if h.most >= 0 {
		all = all[:min(len(all), h.most)]
	}
	var images []corev1.ContainerImage
	for _, i := range all {
		images = append(images, corev1.ContainerImage{Names: append(append([]string(nil), i.Digests...), i.Names...), SizeBytes: i.Bytes})
	}
	return images
}

// report returns what the node's status needs: why the node is not ready, the runtime and its images.
func (h *health) report() (notReady string, about container.Version, images []corev1.ContainerImage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return both(h.problem, h.network), h.about, h.images
}

// works returns why the runtime does not work. A missing network does not count.
func (h *health) works() (problem string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}
