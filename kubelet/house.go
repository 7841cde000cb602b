package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/kubelet/container"
	"github.com/millrace/millrace/kubelet/worker"
)

const (
	sweepEvery  = 30 * time.Second
	imagesEvery = 30 * time.Second
	rotateEvery = 10 * time.Second
	// firstSweep is how often it is asked, after the start, whether it is known what is wanted and what runs.
	firstSweep = 2 * time.Second
)

// keepHouse ends and removes what nobody wants, and keeps logs and images small. None of these waits for another: the
// runtime may take its time with any of them.
func (k *Kubelet) keepHouse(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { every(ctx, rotateEvery, k.rotate) })
	first, stop := context.WithCancel(ctx)
	defer stop()
	every(first, firstSweep, func(ctx context.Context) {
		if k.sweep(ctx) {
			k.dropImages(ctx, k.options.ImageHighUse) // or rather note which there are
			stop()
		}
	})
	all.Go(func() {
		every(ctx, imagesEvery, func(ctx context.Context) { k.dropImages(ctx, k.options.ImageHighUse) })
	})
	every(ctx, sweepEvery, func(ctx context.Context) { k.sweep(ctx) })
	return nil
}

// every does something from time to time, until ctx ends.
func every(ctx context.Context, period time.Duration, do func(context.Context)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do(ctx)
		}
	}
}

// sweep ends and removes what nobody wants. It is false while it is not known what is wanted, or what there is.
func (k *Kubelet) sweep(ctx context.Context) bool {
	if !k.config.Ready() {
		return false
	}
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		return false
	}
	k.clear(ctx, pods)
	return true
}

// clear has pods ended that run and are not wanted, and removes the folders of those that are gone.
func (k *Kubelet) clear(ctx context.Context, pods []container.Pod) {
	alive := map[string]bool{}
	for _, pod := range k.config.Pods() {
		alive[string(pod.UID)] = true
	}
	for i := range pods {
		alive[string(pods[i].UID)] = true
		k.crew.Found(&pods[i])
	}
	if err := k.furnish.Sweep(ctx, func(uid string) bool { return alive[uid] || k.crew.Has(types.UID(uid)) }); err != nil {
		k.options.Logger.Warn("folders of pods that are gone cannot be removed", "err", err)
	}
	k.sweepLogs(func(uid string) bool { return alive[uid] || k.crew.Has(types.UID(uid)) })
}

// sweepLogs removes the logs of pods that are gone.
func (k *Kubelet) sweepLogs(alive func(uid string) bool) {
	entries, err := os.ReadDir(k.options.Logs)
	if err != nil {
		return
	}
	for _, e := range entries {
		parts := strings.Split(e.Name(), "_")
		if len(parts) == 3 && !alive(parts[2]) {
			if err := os.RemoveAll(filepath.Join(k.options.Logs, e.Name())); err != nil {
				k.options.Logger.Warn("logs of a pod that is gone cannot be removed", "err", err)
			}
		}
	}
}

func (k *Kubelet) rotate(ctx context.Context) {
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		return
	}
	for i := range pods {
		for _, run := range pods[i].Containers {
			if run.State != container.Running || run.LogPath == "" {
				continue
			}
			err := k.options.Rotation.Rotate(run.LogPath, func() error { return k.runtime.ReopenLog(ctx, run.ID) })
			if err != nil {
				k.options.Logger.Warn("log cannot be rotated", "path", run.LogPath, "err", err)
			}
		}
	}
}

// dropImages removes images that no container uses, if the disk is too full, until it no longer is.
func (k *Kubelet) dropImages(ctx context.Context, tooFull int) {
	k.imageGC.Lock()
	defer k.imageGC.Unlock()
	mount, _, err := k.runtime.Usage(ctx)
	if err != nil {
		return
	}
	full, err := used(mount)
	if err != nil || full < tooFull {
		return
	}
	inUse := map[string]bool{}
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		return
	}
	for i := range pods {
		for _, run := range pods[i].Containers {
			inUse[run.ImageRef], inUse[run.Image] = true, true
		}
	}
	images, err := k.runtime.List(ctx)
	if err != nil {
		return
	}
	now := time.Now()
	fresh := k.fresh
	k.fresh = map[string]time.Time{}
	for _, image := range images {
		began, ok := fresh[image.ID]
		if !ok {
			began = now
		}
		k.fresh[image.ID] = began
		if image.Pinned || sandboxImage(image.Names) || now.Sub(began) < k.options.ImageRest || inUse[image.ID] || uses(inUse, image.Names) || uses(inUse, image.Digests) {
			continue
		}
		if full, err = used(mount); err != nil || full < min(tooFull, k.options.ImageLowUse) {
			continue
		}
		k.options.Logger.Info("image is removed, since the disk is full", "image", image.ID, "percent", full)
		if err := k.runtime.RemoveImage(ctx, image.ID); err != nil {
			k.options.Logger.Warn("image cannot be removed", "image", image.ID, "err", err)
		}
	}
}

// sandboxImage reports whether an image is that of sandboxes, which runtimes do not always pin and nobody pulls again.
func sandboxImage(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		repository, _, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		return repository == "pause"
	})
}

func uses(inUse map[string]bool, names []string) bool {
	for _, n := range names {
		if inUse[n] {
			return true
		}
	}
	return false
}

func sameStatus(a, b *corev1.PodStatus) bool {
	return equality.Semantic.DeepEqual(worker.OwnPart(a), worker.OwnPart(b))
}
