package scheduler

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/preemption"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// release is what may be released so that a pod finds a node.
type release struct {
	rule string
	note string // for the user
	do   func(context.Context, plugin.Access) error
}

// releaseOf returns what the rules for a pod release; nil if nothing.
func releaseOf(opened cases) *release {
	for _, o := range opened {
		if r, ok := o.Case.(plugin.Releaser); ok {
			if note, do := r.Release(); do != nil {
				return &release{rule: o.Rule, note: note, do: do}
			}
		}
	}
	return nil
}

// makeRoom does what may let a pod be placed later, while other pods are placed.
func (b *binder) makeRoom(ctx context.Context, d decision) {
	if r := d.release; r != nil {
		b.evictions.Go(func() {
			if err := r.do(ctx, access{b.options.Writer, b.knowledge, d.pod}); err != nil {
				b.options.Logger.Warn("a pod that found no node could not be helped", "pod", d.pod.Key, "rule", r.rule, "err", err)
			}
		})
	}
	if d.victims != nil {
		b.evictions.Go(func() { b.preempt(ctx, d.profile, d.pod, d.victims) })
	}
}

// preempt deletes the victims for a pod. If that fails, the pod is tried again.
func (b *binder) preempt(ctx context.Context, p *profile, pod *cluster.Pod, found *preemption.Candidate) {
	begun := time.Now()
	err := b.evict(ctx, p, pod, found)
	b.options.Metrics.Evicted(err, time.Since(begun))
	b.lock()
	defer b.mu.Unlock()
	delete(b.preempting, pod.UID)
	if err != nil {
		b.options.Logger.Warn("preemption failed", "pod", pod.Key, "node", found.Node.Name, "err", err)
		b.backlog.WakeOne(pod.Key, time.Now())
		b.wakeLoop()
	}
}

// evict deletes the victims, all at the same time.
func (b *binder) evict(ctx context.Context, p *profile, pod *cluster.Pod, found *preemption.Candidate) error {
	select {
	case b.evictors <- struct{}{}:
		defer func() { <-b.evictors }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var deletions errgroup.Group
	for _, victim := range found.Victims {
		if !victim.Terminating {
			deletions.Go(func() error { return b.evictOne(ctx, p, pod, victim, found.Node.Name) })
		}
	}
	return deletions.Wait()
}

func (b *binder) evictOne(ctx context.Context, p *profile, pod, victim *cluster.Pod, node string) error {
	ctx = because(ctx, p, pod, fmt.Sprintf("the pod has a higher priority, and needs the room on %s", node))
	err := b.options.API.Preempt(ctx, victim, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason:             corev1.PodReasonPreemptionByScheduler,
		Message:            p.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation,
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil // it does not exist any more
	case err != nil:
		return fmt.Errorf("preempt pod %s: %w", victim.Key, err)
	}
	b.reporter.preempted(victim, pod, node)
	return nil
}
