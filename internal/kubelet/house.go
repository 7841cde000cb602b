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

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

const (
	sweepEvery  = 30 * time.Second
	imagesEvery = 30 * time.Second
	rotateEvery = 10 * time.Second
	// firstSweep is how often the first sweep is tried until all sources and the runtime have reported.
	firstSweep = 2 * time.Second
)

// runHousekeeping removes what no pod needs and keeps logs and images small. Each job has its own goroutine, because
// the runtime may be slow with any of them.
func (k *Kubelet) runHousekeeping(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { every(ctx, rotateEvery, k.rotate) })
	first, stop := context.WithCancel(ctx)
	defer stop()
	every(first, firstSweep, func(ctx context.Context) {
		if k.sweep(ctx) {
			k.images.drop(ctx, k.options.ImageHighUse) // the first round only notes which images exist
			stop()
		}
	})
	all.Go(func() {
		every(ctx, imagesEvery, func(ctx context.Context) { k.images.drop(ctx, k.options.ImageHighUse) })
	})
	every(ctx, sweepEvery, func(ctx context.Context) { k.sweep(ctx) })
	return nil
}

// every calls do once per period until ctx ends.
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

// sweep stops and removes pods that no source wants. It returns false while the wanted pods or the running pods are not
// known.
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

// clear has unwanted running pods stopped, and removes the directories of pods that are gone.
func (k *Kubelet) clear(ctx context.Context, pods []container.Pod) {
	alive := map[string]bool{}
	for _, pod := range k.config.Pods() {
		alive[string(pod.UID)] = true
	}
	for i := range pods {
		alive[string(pods[i].UID)] = true
		k.crew.Found(&pods[i])
	}
	stays := func(uid string) bool { return alive[uid] || k.crew.Has(types.UID(uid)) }
	if err := k.furnish.Sweep(ctx, stays); err != nil {
		k.options.Logger.Warn("directories of removed pods cannot be removed", "err", err)
	}
	if k.devices != nil {
		if err := k.devices.Sweep(ctx, stays); err != nil {
			k.options.Logger.Warn("resource claims of pods that are gone cannot be unprepared", "err", err)
		}
	}
	if k.plugins != nil {
		if err := k.plugins.Sweep(stays); err != nil {
			k.options.Logger.Warn("devices of pods that are gone cannot be taken back", "err", err)
		}
	}
	k.sweepLogs(stays)
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
				k.options.Logger.Warn("logs of a removed pod cannot be removed", "err", err)
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
