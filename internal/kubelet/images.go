package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kubelet/container"
)

// imageCollector removes unused images while their disk is too full.
//
// An image that was first seen a short while ago is kept, because its pod may not have started yet. Images are noted in
// every round, even while the disk has room: otherwise all images would look new when the disk fills up.
type imageCollector struct {
	runtime interface {
		container.ImageStore
		Pods(context.Context) ([]container.Pod, error)
	}
	used func(mount string) (percent int, err error)
	// rest is how long an image is kept after it was first seen. low is the disk usage, in percent, at which removal
	// stops.
	rest time.Duration
	low  int
	log  *slog.Logger

	mu    sync.Mutex           // guards the fields below; held during a round
	seen  map[string]time.Time // when each image was first seen
	mount string               // the mount that holds the images
}

// drop runs one round: it notes the images that exist, and removes some if disk usage is above tooFull percent.
func (ic *imageCollector) drop(ctx context.Context, tooFull int) {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	images, err := ic.runtime.List(ctx)
	if err != nil {
		return
	}
	ic.note(images, time.Now())
	mount := ic.mountLocked(ctx)
	if full, err := ic.used(mount); mount == "" || err != nil || full < tooFull {
		return
	}
	inUse, err := ic.inUse(ctx)
	if err != nil {
		return
	}
	for i := range images {
		if !ic.removable(&images[i], inUse) {
			continue
		}
		full, err := ic.used(mount)
		if err != nil || full < min(tooFull, ic.low) {
			return
		}
		ic.remove(ctx, &images[i], full)
	}
}

// note records when each existing image was first seen.
func (ic *imageCollector) note(images []container.Image, now time.Time) {
	seen := make(map[string]time.Time, len(images))
	for i := range images {
		id := images[i].ID
		if first, ok := ic.seen[id]; ok {
			seen[id] = first
		} else {
			seen[id] = now
		}
	}
	ic.seen = seen
}

func (ic *imageCollector) removable(image *container.Image, inUse map[string]bool) bool {
	isUsed := func(name string) bool { return inUse[name] }
	return !image.Pinned && !sandboxImage(image.Names) && time.Since(ic.seen[image.ID]) >= ic.rest &&
		!inUse[image.ID] && !slices.ContainsFunc(image.Names, isUsed) && !slices.ContainsFunc(image.Digests, isUsed)
}

func (ic *imageCollector) remove(ctx context.Context, image *container.Image, full int) {
	ic.log.Info("image removed because the disk is full", "image", image.ID, "percent", full)
	if err := ic.runtime.RemoveImage(ctx, image.ID); err != nil {
		ic.log.Warn("image cannot be removed", "image", image.ID, "err", err)
	}
}

// inUse returns the images of all containers, under all their names.
func (ic *imageCollector) inUse(ctx context.Context) (map[string]bool, error) {
	pods, err := ic.runtime.Pods(ctx)
	if err != nil {
		return nil, err
	}
	inUse := map[string]bool{}
	for i := range pods {
		for _, run := range pods[i].Containers {
			inUse[run.ImageRef], inUse[run.Image] = true, true
			for _, image := range run.VolumeImages {
				inUse[image] = true
			}
		}
	}
	return inUse, nil
}

// where returns the mount that holds the images, or "" until the runtime reports it.
func (ic *imageCollector) where(ctx context.Context) string {
	ic.mu.Lock()
	defer ic.mu.Unlock()
	return ic.mountLocked(ctx)
}

func (ic *imageCollector) mountLocked(ctx context.Context) string {
	if ic.mount == "" { // the mount does not change
		if mount, _, err := ic.runtime.Usage(ctx); err == nil {
			ic.mount = mount
		}
	}
	return ic.mount
}

// sandboxImage reports whether an image is the pause image. Not every runtime pins it, and the kubelet does not pull
// it.
func sandboxImage(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		repository, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		return repository == "pause"
	})
}
