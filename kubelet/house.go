package kubelet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/kubelet/container"
	"github.com/millrace/millrace/kubelet/worker"
)

const (
	houseEvery = 2 * time.Second
	// Each of these is counted in rounds of houseEvery.
	rotateRounds = 5
	sweepRounds  = 15
	imageRounds  = 15
)

// keepHouse ends and removes what nobody wants, and keeps logs and images small.
func (k *Kubelet) keepHouse(ctx context.Context) error {
	tick := time.NewTicker(houseEvery)
	defer tick.Stop()
	found := false
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ready := k.config.Ready()
		if !found || round%sweepRounds == 0 {
			pods, err := k.runtime.Pods(ctx)
			if err == nil && ready {
				k.clear(ctx, pods)
				if !found {
					k.dropImages(ctx, k.options.ImageHighUse) // or rather note which there are
				}
				found = true
			}
		}
		if round%rotateRounds == 0 {
			k.rotate(ctx)
		}
		if round%imageRounds == 0 && ready {
			k.dropImages(ctx, k.options.ImageHighUse)
		}
	}
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
