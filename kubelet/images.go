package kubelet

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/kubelet/container"
)

// imageKeeper removes images that no container uses, while the disk that holds them is too full.
//
// An image that was seen first a short while ago stays, because its pod may not have started yet. Images are noted at
// each round, whether the disk is full or not: those that were there all the time must not look new when it fills up.
type imageKeeper struct {
	runtime interface {
		container.Keeper
		Pods(context.Context) ([]container.Pod, error)
	}
	used func(mount string) (percent int, err error)
	// rest is how long an image stays after it was seen first, and low how full, in percent, the disk may stay.
	rest time.Duration
	low  int
	log  *slog.Logger

	mu    sync.Mutex           // guards what follows, and is held during a round
	seen  map[string]time.Time // when each image was seen first
	mount string               // where images are kept
}

// drop makes a round: it notes which images there are, and removes some if the disk is fuller than tooFull percent.
func (k *imageKeeper) drop(ctx context.Context, tooFull int) {
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

// note remembers when images were seen first, of those that are there.
func (k *imageKeeper) note(images []container.Image, now time.Time) {
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

func (k *imageKeeper) removable(image *container.Image, inUse map[string]bool) bool {
	isUsed := func(name string) bool { return inUse[name] }
	return !image.Pinned && !sandboxImage(image.Names) && time.Since(k.seen[image.ID]) >= k.rest &&
		!inUse[image.ID] && !slices.ContainsFunc(image.Names, isUsed) && !slices.ContainsFunc(image.Digests, isUsed)
}

func (k *imageKeeper) remove(ctx context.Context, image *container.Image, full int) {
	k.log.Info("image is removed, because the disk is full", "image", image.ID, "percent", full)
	if err := k.runtime.RemoveImage(ctx, image.ID); err != nil {
		k.log.Warn("image cannot be removed", "image", image.ID, "err", err)
	}
}

// inUse are the images of all containers, by each of their names.
func (k *imageKeeper) inUse(ctx context.Context) (map[string]bool, error) {
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		return nil, err
	}
	inUse := map[string]bool{}
	for i := range pods {
		for _, run := range pods[i].Containers {
			inUse[run.ImageRef], inUse[run.Image] = true, true
		}
	}
	return inUse, nil
}

// where is the mount that holds images, or nothing while the runtime does not tell.
func (k *imageKeeper) where(ctx context.Context) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mountLocked(ctx)
}

func (k *imageKeeper) mountLocked(ctx context.Context) string {
	if k.mount == "" { // which does not change
		if mount, _, err := k.runtime.Usage(ctx); err == nil {
			k.mount = mount
		}
	}
	return k.mount
}

// sandboxImage reports whether an image is that of sandboxes, which runtimes do not always pin and nobody pulls again.
func sandboxImage(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		repository, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		return repository == "pause"
	})
}
