package scheduler

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/queue"
)

// reporter informs users about their pods, through events and conditions. It never blocks the scheduler. Of several
// conditions for one pod only the latest is written.
type reporter struct {
	options Options
	keys    *queue.Queue[cluster.Key]

	mu      sync.Mutex
	pending map[cluster.Key]report // guarded by mu
}

type report struct {
	pod    *cluster.Pod
	status Status
}

// writers is the number of concurrent writes of conditions. Bindings have precedence.
const writers = 8

func newReporter(options Options) *reporter {
	return &reporter{
		options: options,
		keys:    queue.New(queue.Options[cluster.Key]{Name: "scheduler-reports", Logger: options.Logger}),
		pending: make(map[cluster.Key]report),
	}
}

func (r *reporter) run(ctx context.Context) {
	// The queue ends with ctx; its error says no more than that.
	_ = r.keys.Run(ctx, writers, r.write)
}

func (r *reporter) write(ctx context.Context, key cluster.Key) error {
	r.mu.Lock()
	report, ok := r.pending[key]
	delete(r.pending, key)
	r.mu.Unlock()
	if !ok {
		return nil
	}
	err := r.send(ctx, report)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	r.mu.Lock()
	if _, newer := r.pending[key]; !newer {
		r.pending[key] = report
	}
	r.mu.Unlock()
	return err
}

// send writes a condition unless the pod has a node. The write requires the version of the pod that has no node, so a
// late report cannot contradict the binding.
func (r *reporter) send(ctx context.Context, report report) error {
	err := r.options.API.Report(ctx, report.pod, report.status)
	if !apierrors.IsConflict(err) {
		return err
	}
	now, err := r.options.API.Read(ctx, report.pod.Key)
	if err != nil {
		return err
	}
	if now.UID != report.pod.UID || now.Spec.NodeName != "" {
		return nil
	}
	pod := *report.pod
	pod.ResourceVersion = now.ResourceVersion
	return r.options.API.Report(ctx, &pod, report.status)
}

// unschedulable reports that a pod found no node. nominated is its new nominated node; nil: unchanged.
func (r *reporter) unschedulable(pod *cluster.Pod, message string, nominated *string) {
	r.event(pod, corev1.EventTypeWarning, "FailedScheduling", message)
	r.condition(pod, corev1.PodReasonUnschedulable, message, nominated)
}

// unnominated reports that a pod has no nominated node any more.
func (r *reporter) unnominated(pod *cluster.Pod) {
	nobody := ""
	r.add(pod, Status{NominatedNode: &nobody})
}

// preempted reports to the users of a victim which pod preempted it.
func (r *reporter) preempted(victim, by *cluster.Pod, node string) {
	r.event(victim, corev1.EventTypeNormal, "Preempted", fmt.Sprintf("Preempted by pod %s on node %s", by.UID, node))
}

func (r *reporter) failed(pod *cluster.Pod, message string) {
	r.event(pod, corev1.EventTypeWarning, "FailedScheduling", message)
	r.condition(pod, corev1.PodReasonSchedulerError, message, nil)
}

func (r *reporter) gated(pod *cluster.Pod) {
	r.condition(pod, corev1.PodReasonSchedulingGated, "Scheduling is blocked due to non-empty scheduling gates", nil)
}

func (r *reporter) scheduled(pod *cluster.Pod, node string) {
	r.mu.Lock()
	delete(r.pending, pod.Key)
	r.mu.Unlock()
	r.event(pod, corev1.EventTypeNormal, "Scheduled", "Successfully assigned "+pod.Key.String()+" to "+node)
}

func (r *reporter) event(pod *cluster.Pod, kind, reason, message string) {
	if r.options.Recorder == nil {
		return
	}
	r.options.Recorder.Eventf(&corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1",
		Namespace: pod.Key.Namespace, Name: pod.Key.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}, kind, reason, "%s", message)
}

func (r *reporter) condition(pod *cluster.Pod, reason, message string, nominated *string) {
	if nominated != nil && *nominated == pod.NominatedNode {
		nominated = nil
	}
	status := Status{NominatedNode: nominated}
	if pod.Reason != reason || pod.Message != message {
		status.Condition = &corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: reason, Message: message, ObservedGeneration: pod.Generation,
		}
		if pod.Reason == "" {
			status.Condition.LastTransitionTime = metav1.Now()
		}
	}
	r.add(pod, status)
}

// add queues a status. Parts of an earlier status that it does not replace are kept.
func (r *reporter) add(pod *cluster.Pod, status Status) {
	r.mu.Lock()
	if old, ok := r.pending[pod.Key]; ok && old.pod.UID == pod.UID {
		if status.Condition == nil {
			status.Condition = old.status.Condition
		}
		if status.NominatedNode == nil {
			status.NominatedNode = old.status.NominatedNode
		}
	}
	needed := status.Condition != nil || status.NominatedNode != nil
	if needed {
		r.pending[pod.Key] = report{pod: pod, status: status}
	}
	r.mu.Unlock()
	if needed {
		r.keys.AddBecause(pod.Key, changeOf(pod))
	}
}
