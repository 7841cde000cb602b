package kubelet

import (
	"context"
	"os"
	"path/filepath"
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
			k.images.drop(ctx, k.options.ImageHighUse) // the first time it notes which there are
			stop()
		}
	})
	all.Go(func() {
		every(ctx, imagesEvery, func(ctx context.Context) { k.images.drop(ctx, k.options.ImageHighUse) })
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

func sameStatus(a, b *corev1.PodStatus) bool {
	return equality.Semantic.DeepEqual(worker.OwnPart(a), worker.OwnPart(b))
}
