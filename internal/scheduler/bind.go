package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// outcome is the result of a binding.
type outcome int

const (
	bound    outcome = iota // the pod is bound to the node
	rejected                // the pod has no node, and this binding will not take effect any more
	lost                    // the pod was deleted, is terminating, or has another node
	unknown                 // the result is not known, and there is no time left to find out
)

// bind carries out a decision. The pod counts on its node until the outcome is known.
func (b *binder) bind(ctx context.Context, d decision) {
	end, err := b.carryOut(ctx, d)
	ended := time.Now()
	if end == rejected || end == lost {
		b.undo(ctx, d)
	}
	b.lock()
	switch end {
	case bound:
		b.backlog.Remove(d.pod.Key)
	case rejected:
		b.release(d)
		b.backlog.Retry(d.entry, time.Now())
	case lost:
		b.release(d)
		b.forget(d)
	}
	b.reportSizes()
	b.mu.Unlock()
	b.wakeLoop()

	switch end {
	case bound:
		b.reporter.scheduled(d.pod, d.node)
		b.options.Metrics.Attempt(d.profile.SchedulerName, Scheduled, ended.Sub(d.begun))
		b.options.Metrics.Bound(d.entry.Attempts, ended.Sub(d.entry.Added), d.entry.TimedOut)
	case rejected:
		message := fmt.Sprintf("binding rejected: %v", err)
		if unprepared := (*prepareError)(nil); errors.As(err, &unprepared) {
			message = err.Error()
		}
		b.reporter.failed(d.pod, message)
		b.options.Metrics.Attempt(d.profile.SchedulerName, Failed, time.Since(d.begun))
		level := slog.LevelWarn
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
			level = slog.LevelDebug // the pod is going, or gone
		}
		b.options.Logger.Log(ctx, level, "binding rejected", "pod", d.pod.Key, "node", d.node, "err", err)
	case unknown:
		b.options.Logger.WarnContext(ctx, "stopped without an answer to a binding", "pod", d.pod.Key, "node", d.node, "err", err)
	}
}

// release frees what was reserved for the pod, unless the watch shows that the pod has the node.
func (b *binder) release(d decision) {
	d.cases.unreserve()
	if b.state.Forget(d.pod.Key, d.pod.UID) {
		node, _ := b.state.NodeNamed(d.node)
		b.wakeFor(cluster.PodGone, node)
	}
}

// forget removes a pod that is lost from the queue, but not a new pod with the same name.
func (b *binder) forget(d decision) {
	if b.backlog.Holds(d.entry) {
		b.backlog.Remove(d.pod.Key)
	}
}

func (b *binder) carryOut(ctx context.Context, d decision) (outcome, error) {
	ctx = because(ctx, d.profile, d.pod, fmt.Sprintf("%s is the best of %d nodes (attempt %d)", d.node, d.nodes, d.entry.Attempts))
	begun, metrics := time.Now(), d.profile.metrics
	if len(d.cases)+len(d.profile.BeforeBind) > 0 {
		err := b.beforeBind(ctx, d)
		prepared := time.Now()
		metrics.Ran(PreBind, statusOf(err), prepared.Sub(begun))
		if err != nil {
			return rejected, err
		}
		begun = prepared
	}
	end, err := b.post(ctx, d.pod, d.node)
	metrics.Ran(Bind, bindStatus(end), time.Since(begun))
	return end, err
}

// because returns the context of what is done for a pod.
func because(ctx context.Context, p *profile, pod *cluster.Pod, decision string) context.Context {
	return cause.With(ctx, cause.Cause{
		Loop: p.SchedulerName, Key: pod.Key.String(), Changes: []cause.Change{changeOf(pod)}, Count: 1, Decision: decision,
	})
}

// changeOf returns the change that made the version of a pod.
func changeOf(pod *cluster.Pod) cause.Change {
	return cause.At("pods", pod.Key.Namespace, pod.Key.Name, pod.ResourceVersion)
}

// beforeBind does what must be done before the pod is bound.
func (b *binder) beforeBind(ctx context.Context, d decision) error {
	if err := b.prepare(ctx, d); err != nil {
		return err
	}
	for _, b := range d.profile.BeforeBind {
		if err := b.BeforeBind(ctx, d.pod, d.node); err != nil {
			return err
		}
	}
	return nil
}

// Delays between attempts.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// answerWithin is the timeout of a request. No server works longer on a request.
	answerWithin = 65 * time.Second
)

// post sends a binding until the outcome is known. A binding names one pod and one node, so sending it again does no
// harm. Giving up after a lost answer would do harm, because the server may still carry out the request. No server
// works on a request longer than answerWithin. So a refusal after that time is final, if the pod has no node then.
func (b *binder) post(ctx context.Context, pod *cluster.Pod, node string) (outcome, error) {
	var lost time.Time // when the last request without an answer was sent
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		sent := time.Now()
		end, err := b.postOnce(ctx, pod, node)
		if end == rejected && !lost.IsZero() && time.Since(lost) > answerWithin {
			end, err = b.resolveConflict(ctx, pod, node, err)
			if end == rejected {
				return end, err
			}
		}
		switch {
		case end == unknown:
			lost = sent
		case end == rejected && !lost.IsZero():
			// The server refuses this request, but may still carry out the earlier one.
		default:
			return end, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return unknown, err
		}
	}
}

func (b *binder) postOnce(ctx context.Context, pod *cluster.Pod, node string) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if e, object := b.binderOf(pod); e != nil {
		return b.bindExtended(ctx, e, object, pod, node)
	}
	err := b.options.API.Bind(ctx, pod, node)
	switch {
	case err == nil:
		return bound, nil
	case apierrors.IsNotFound(err):
		return lost, err
	case apierrors.IsConflict(err):
		return b.resolveConflict(ctx, pod, node, err)
	case refused(err):
		return rejected, err
	}
	return unknown, err
}

// resolveConflict reads the pod to find out why the binding was a conflict.
func (b *binder) resolveConflict(ctx context.Context, pod *cluster.Pod, node string, conflict error) (outcome, error) {
	now, err := b.options.API.Read(ctx, pod.Key)
	switch {
	case apierrors.IsNotFound(err):
		return lost, err
	case err != nil:
		return unknown, err
	case now.UID != pod.UID:
		return lost, conflict
	case now.Spec.NodeName == node:
		return bound, nil
	case now.Spec.NodeName != "" || now.DeletionTimestamp != nil:
		return lost, conflict
	}
	return rejected, conflict
}

// refused reports whether the error means that the server has not carried out the request and will not do so.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsRequestEntityTooLargeError(err)
}
