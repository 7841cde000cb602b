package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/kubelet/pressure"
	"github.com/millrace/millrace/internal/kubelet/stats"
	"github.com/millrace/millrace/internal/kubelet/worker"
)

const (
	pressureEvery = 10 * time.Second
	// shortestGrace is the grace period of pods that must go at once.
	shortestGrace = time.Second
)

// guard protects the node from running out of resources: it removes unused containers and images, and evicts pods if
// that is not enough. Memory, disk and the pods' storage are checked by separate goroutines, because walking large
// directories and removing images may take minutes, and memory can run out meanwhile.
func (k *Kubelet) guard(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		atOnceAndEvery(ctx, pressureEvery, func(ctx context.Context) {
			k.evictOverfull()
			k.evictStored(ctx)
			k.boundFiles() // after they were counted
		})
	})
	all.Go(func() {
		atOnceAndEvery(ctx, pressureEvery, func(ctx context.Context) { k.relieve(ctx, k.measure.disk) })
	})
	atOnceAndEvery(ctx, pressureEvery, func(ctx context.Context) { k.relieve(ctx, k.measure.memory) })
	return nil
}

func atOnceAndEvery(ctx context.Context, period time.Duration, do func(context.Context)) {
	do(ctx)
	every(ctx, period, do)
}

// levels says how much of each resource is left.
type levels = map[pressure.Signal]pressure.Level

// measures reads the levels. Memory and process numbers are read at once; disks may need answers of the runtime.
type measures struct{ memory, disk func(context.Context) levels }

func memoryLevels(context.Context) levels {
	all := levels{}
	if m := stats.MachineMemory(); m != nil {
		all[pressure.Memory] = pressure.Level{Available: *m.Available, Capacity: *m.Available + m.WorkingSet}
	}
	if p := stats.Tasks(); p != nil {
		all[pressure.PIDs] = pressure.Level{Available: uint64(max(p.Most-p.Current, 0)), Capacity: uint64(p.Most)}
	}
	return all
}

func (k *Kubelet) diskLevels(ctx context.Context) levels {
	all := levels{}
	fill := func(path string, space, inodes pressure.Signal) {
		fs := stats.Disk(path)
		if fs == nil {
			return
		}
		all[space] = pressure.Level{Available: *fs.Available, Capacity: *fs.Capacity}
		if *fs.Inodes > 0 { // some file systems do not count inodes
			all[inodes] = pressure.Level{Available: *fs.InodesFree, Capacity: *fs.Inodes}
		}
	}
	fill(k.options.Root, pressure.Disk, pressure.Inodes)
	if mount := k.images.where(ctx); mount != "" {
		fill(mount, pressure.ImageDisk, pressure.ImageInodes)
	}
	return all
}

// holdsImages reports whether the short resource is on the images' disk, so that removing images helps.
func (k *Kubelet) holdsImages(ctx context.Context, s pressure.Signal) bool {
	if s == pressure.ImageDisk || s == pressure.ImageInodes {
		return true
	}
	return s.Condition() == corev1.NodeDiskPressure && sameDisk(k.options.Root, k.images.where(ctx))
}

// relieve checks the levels, and acts on the first shortage.
func (k *Kubelet) relieve(ctx context.Context, measure func(context.Context) levels) {
	short, due := k.shortages.Check(measure(ctx), time.Now())
	if len(due) > 0 {
		k.announce(corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", due[0].Signal.Resource())
	}
	if len(due) > 0 && k.holdsImages(ctx, due[0].Signal) && k.config.Ready() {
		k.images.drop(ctx, 0)
		short, due = k.shortages.Check(measure(ctx), time.Now())
	}
	k.notePressure(short)
	if len(due) == 0 || !k.config.Ready() {
		return
	}
	victim := pressure.Victim(k.uses(ctx, due[0].Signal))
	if victim == nil {
		return
	}
	k.options.Logger.Warn("pod is evicted", "pod", informer.KeyOf(victim.Pod), "signal", due[0].Signal, "available", due[0].Available)
	k.evict(victim.Pod, victim.Message(due[0]), k.evictionGrace(due[0]))
}

// evictionGrace is the longest grace period of a pod that is evicted for a shortage; 0: its own.
func (k *Kubelet) evictionGrace(s pressure.Shortage) time.Duration {
	switch most := k.options.EvictionGrace; {
	case !s.Soft:
		return shortestGrace
	case most < 0:
		return 0
	default:
		return max(most, shortestGrace)
	}
}

// notePressure stores the shortages, and has the node's status written if a condition changes.
func (k *Kubelet) notePressure(short []pressure.Shortage) {
	k.noting.Lock()
	defer k.noting.Unlock()
	before := k.pressed.Conditions()
	if k.pressed.Note(short, time.Now(), k.options.PressureHolds) {
		now := k.pressed.Conditions()
		k.options.Logger.Info("node conditions changed", "conditions", now)
		k.announcePressure(before, now)
		k.health.tell()
	}
}

func (k *Kubelet) evict(pod *corev1.Pod, message string, within time.Duration) {
	k.crew.Evict(pod.UID, &worker.Rejection{Reason: worker.Evicted, Message: message, Within: within})
}

// uses returns how much of the short resource each running pod uses.
func (k *Kubelet) uses(ctx context.Context, s pressure.Signal) []pressure.Use {
	summary, err := k.podSummary(ctx, s.Condition() == corev1.NodeDiskPressure)
	if err != nil {
		k.options.Logger.Warn("usage of pods cannot be read", "err", err)
		return nil
	}
	pods := map[string]*corev1.Pod{}
	for _, pod := range k.config.Pods() {
		pods[string(pod.UID)] = pod
	}
	var all []pressure.Use
	for i := range summary {
		p := &summary[i]
		pod := pods[p.Ref.UID]
		if pod == nil || !k.crew.Evictable(pod) {
			continue
		}
		u := pressure.Use{Pod: pod, Static: k.config.Static(pod), Containers: map[string]int64{}}
		for _, c := range p.Containers {
			used := usedOf(&c, s)
			u.Used += used
			u.Containers[c.Name] = used
		}
		requests := demand.SpecRequests(&pod.Spec)
		u.Requested, _ = requests.Get(corev1.ResourceName(s.Resource()))
		if s.Condition() == corev1.NodeDiskPressure {
			u.Used += k.volumesOf(pod)
		}
		all = append(all, u)
	}
	return all
}

func usedOf(c *stats.Container, s pressure.Signal) int64 {
	switch {
	case s == pressure.Memory && c.Memory != nil:
		return int64(c.Memory.WorkingSet)
	case s.Condition() == corev1.NodeDiskPressure:
		sum := int64(0)
		for _, fs := range []*stats.FS{c.RootFS, c.Logs} {
			if fs != nil && fs.Used != nil {
				sum += int64(*fs.Used)
			}
		}
		return sum
	}
	return 0
}

// underPressure returns why a node with a shortage rejects a pod, or nil.
func (k *Kubelet) underPressure(pod *corev1.Pod) *worker.Rejection {
	held := k.pressed.Conditions()
	if len(held) == 0 || k.config.Static(pod) && priorityOf(pod) >= maxPriority {
		return nil
	}
	if len(held) == 1 && held[corev1.NodeMemoryPressure] && (pod.Status.QOSClass != corev1.PodQOSBestEffort || demand.Tolerates(pod.Spec.Tolerations, &memoryPressure)) {
		return nil
	}
	var words []corev1.NodeConditionType
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		if held[kind] {
			words = append(words, kind)
		}
	}
	return &worker.Rejection{Reason: worker.Evicted, Message: fmt.Sprintf("The node had condition: %v. ", words)}
}

var memoryPressure = corev1.Taint{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}

const maxPriority = 2_000_000_000

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
