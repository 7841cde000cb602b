package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace/millrace/scheduler/internal/cluster"
)

// fate is what has become of a binding.
type fate int

const (
	bound    fate = iota // the pod has the node
	rejected             // it has none, and this binding will not give it one any more
	lost                 // there is no such pod any more, or it is going, or it has another node
	unknown              // nobody knows, and there is no time left to ask
)

// bind carries out a decision. The pod counts on its node until its fate is known.
func (t *term) bind(ctx context.Context, d decision) {
	end, err := t.carryOut(ctx, d)
	t.mu.Lock()
	switch end {
	case bound:
		t.backlog.Remove(d.pod.Key)
	case rejected:
		t.giveBack(d)
		t.backlog.Retry(d.entry, time.Now())
	case lost:
		t.giveBack(d)
		t.drop(d)
	}
	t.count()
	t.mu.Unlock()
	t.nudge()

	switch end {
	case bound:
		t.reporter.scheduled(d.pod, d.node)
		t.options.Metrics.Attempt(d.profile.SchedulerName, Scheduled, time.Since(d.begun))
		t.options.Metrics.Bound(d.entry.Attempts, time.Since(d.entry.Added))
	case rejected:
		message := fmt.Sprintf("binding rejected: %v", err)
		if unprepared := (*prepareError)(nil); errors.As(err, &unprepared) {
			message = err.Error()
		}
		t.reporter.failed(d.pod, message)
		t.options.Metrics.Attempt(d.profile.SchedulerName, Failed, time.Since(d.begun))
		t.options.Logger.WarnContext(ctx, "binding rejected", "pod", d.pod.Key, "node", d.node, "err", err)
	case unknown:
		t.options.Logger.WarnContext(ctx, "stopped without an answer to a binding", "pod", d.pod.Key, "node", d.node, "err", err)
	}
}

// giveBack frees what the pod would have taken, unless the watch shows that it has it.
func (t *term) giveBack(d decision) {
	d.cases.unreserve()
	if t.state.Forget(d.pod.Key, d.pod.UID) {
		node, _ := t.state.NodeNamed(d.node)
		t.helps(cluster.PodGone, node)
	}
}

// drop forgets a pod that is lost, but not another one that has come under its name.
func (t *term) drop(d decision) {
	if t.backlog.Holds(d.entry) {
		t.backlog.Remove(d.pod.Key)
	}
}

func (t *term) carryOut(ctx context.Context, d decision) (fate, error) {
	if err := t.prepare(ctx, d); err != nil {
		return rejected, err
	}
	for _, b := range d.profile.BeforeBind {
		if err := b.BeforeBind(ctx, d.pod, d.node); err != nil {
			return rejected, err
		}
	}
	return t.post(ctx, d.pod, d.node)
}

// Pauses between attempts to get an answer.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// answerWithin bounds one request. Servers do not work on a request for longer.
	answerWithin = 65 * time.Second
)

// post sends a binding until its fate is known. A binding names one pod and one
// node, so sending it again does no harm; giving up right after an answer was lost
// would, because the server may still carry out the request. A server works on no
// request for longer than answerWithin: a refusal after that time counts, if the pod has no node then.
func (t *term) post(ctx context.Context, pod *cluster.Pod, node string) (fate, error) {
	var lost time.Time // when a request was sent last whose answer is not known
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		sent := time.Now()
		end, err := t.postOnce(ctx, pod, node)
		if end == rejected && !lost.IsZero() && time.Since(lost) > answerWithin {
			end, err = t.look(ctx, pod, node, err)
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

func (t *term) postOnce(ctx context.Context, pod *cluster.Pod, node string) (fate, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if e, object := t.binderOf(pod); e != nil {
		return t.bindExtended(ctx, e, object, pod, node)
	}
	err := t.options.API.Bind(ctx, pod, node)
	switch {
	case err == nil:
		return bound, nil
	case apierrors.IsNotFound(err):
		return lost, err
	case apierrors.IsConflict(err):
		return t.look(ctx, pod, node, err)
	case refused(err):
		return rejected, err
	}
	return unknown, err
}

// look finds out what a conflict means.
func (t *term) look(ctx context.Context, pod *cluster.Pod, node string, conflict error) (fate, error) {
	now, err := t.options.API.Read(ctx, pod.Key)
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

// refused says whether an error is the server's word that it did not and will not do it.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsUnauthorized(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsRequestEntityTooLargeError(err)
}
