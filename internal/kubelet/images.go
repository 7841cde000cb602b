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
// An image that was first seen a short while ago is kept, because its pod may not have started yet. Images are noted in every
// round, even while the disk has room: otherwise all images would look new when the disk fills up.
type imageCollector struct {
	runtime interface {
		container.ImageStore
		Pods(context.Context) ([]container.Pod, error)
	}
	used func(mount string) (percent int, err error)
	// rest is how long an image is kept after it was first seen. low is the disk usage, in percent, at which removal stops.
	rest time.Duration
	low  int
	log  *slog.Logger

	mu    sync.Mutex           // guards the fields below; held during a round
	seen  map[string]time.Time // when each image was first seen
	mount string               // the mount that holds the images
}

// drop runs one round: it notes the images that exist, and removes some if disk usage is above tooFull percent.
func (k *imageCollector) drop(ctx context.Context, tooFull int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	images, err := k.runtime.List(ctx)
	if err != nil {
		return
	}
	k.note(images, time.Now())
	mount := k.mountLocked(ctx)
	if full, err := k.used(mount); mount == "" || err != nil || full < tooFull {
		return
	}
	inUse, err := k.inUse(ctx)
	if err != nil {
		return
	}
	for i := range images {
		if !k.removable(&images[i], inUse) {
			continue
		}
		full, err := k.used(mount)
		if err != nil || full < min(tooFull, k.low) {
			return
		}
		k.remove(ctx, &images[i], full)
	}
}

// note records when each existing image was first seen.
func (k *imageCollector) note(images []container.Image, now time.Time) {
	seen := make(map[string]time.Time, len(images))
	for i := range images {
		id := images[i].ID
		if first, ok := k.seen[id]; ok {
			seen[id] = first
		} else {
			seen[id] = now
		}
	}
	k.seen = seen
}

func (k *imageCollector) removable(image *container.Image, inUse map[string]bool) bool {
	isUsed := func(name string) bool { return inUse[name] }
	return !image.Pinned && !sandboxImage(image.Names) && time.Since(k.seen[image.ID]) >= k.rest &&
		!inUse[image.ID] && !slices.ContainsFunc(image.Names, isUsed) && !slices.ContainsFunc(image.Digests, isUsed)
}

func (k *imageCollector) remove(ctx context.Context, image *container.Image, full int) {
	k.log.Info("image removed because the disk is full", "image", image.ID, "percent", full)
	if err := k.runtime.RemoveImage(ctx, image.ID); err != nil {
		k.log.Warn("image cannot be removed", "image", image.ID, "err", err)
	}
}

// inUse returns the images of all containers, under all their names.
func (k *imageCollector) inUse(ctx context.Context) (map[string]bool, error) {
	pods, err := k.runtime.Pods(ctx)
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
func (k *imageCollector) where(ctx context.Context) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mountLocked(ctx)
}

func (k *imageCollector) mountLocked(ctx context.Context) string {
	if k.mount == "" { // the mount does not change
		if mount, _, err := k.runtime.Usage(ctx); err == nil {
			k.mount = mount
		}
	}
	return k.mount
}

// sandboxImage reports whether an image is the pause image. Not every runtime pins it, and the kubelet does not pull it.
func sandboxImage(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		repository, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		return repository == "pause"
	})
}
