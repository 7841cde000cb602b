package podautoscaler

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// evaluation is one evaluation of an autoscaler. It owns its copy, and writes the status once at the end.
type evaluation struct {
	*controller
	*memory
	key    loop.Key
	now    time.Time
	hpa    *autoscalingv2.HorizontalPodAutoscaler
	before *autoscalingv2.HorizontalPodAutoscalerStatus

	// why is the reason of a change. metrics are the current values.
	why     string
	metrics []autoscalingv2.MetricStatus
	// did is what was done, and failed the first error.
	did    Action
	failed error
}

func (e *evaluation) do(ctx context.Context) error {
	t, err := e.target(ctx)
	if err != nil {
		e.fail(err)
		e.warn("FailedGetScale", err.Error())
		e.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err))
		return e.write(ctx)
	}
	e.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	now := t.scale.Spec.Replicas
	if e.recommendations == nil {
		e.recommendations = []sample{{now, e.now}}
	}
	wanted, failed := e.wanted(ctx, t.scale)
	e.fail(failed)
	if failed != nil && wanted < 0 {
		e.status(now, e.hpa.Status.DesiredReplicas, false)
		err := e.write(ctx)
		e.warn("FailedComputeMetricsReplicas", failed.Error())
		return err
	}
	if wanted == now {
		e.status(now, now, false)
		return e.write(ctx)
	}
	if err := t.set(ctx, wanted); err != nil {
		e.fail(err)
		e.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", wanted, e.why, err))
		e.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		e.status(now, e.hpa.Status.DesiredReplicas, false)
		return e.write(ctx)
	}
	e.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", wanted))
	e.recorder.Eventf(e.hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", wanted, e.why)
	e.did = actionOf(now, wanted)
	e.scaled(now, wanted)
	e.status(now, wanted, true)
	return e.write(ctx)
}

// wanted returns the wanted number of replicas. It returns -1 and an error if that cannot be computed.
func (e *evaluation) wanted(ctx context.Context, scale *autoscalingv1.Scale) (int32, error) {
	now, least := scale.Spec.Replicas, e.least()
	switch {
	case now == 0:
		e.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		return 0, nil
	case now > e.hpa.Spec.MaxReplicas:
		e.why = "Current number of replicas above Spec.MaxReplicas"
		return e.hpa.Spec.MaxReplicas, nil
	case now < least:
		e.why = "Current number of replicas below Spec.MinReplicas"
		return least, nil
	}
	proposed, metric, err := e.propose(ctx, scale)
	if err != nil && proposed < 0 {
		return -1, err
	}
	switch {
	case proposed > now:
		e.why = metric + " above target"
	case proposed < now:
		e.why = "All metrics below target"
	}
	return e.limit(now, proposed), err
}

// fail keeps the first error of the evaluation.
func (e *evaluation) fail(err error) {
	if e.failed == nil {
		e.failed = err
	}
}

func (e *evaluation) least() int32 {
	if e.hpa.Spec.MinReplicas != nil {
		return *e.hpa.Spec.MinReplicas
	}
	return 1
}

func (e *evaluation) warn(reason, message string) {
	e.recorder.Eventf(e.hpa, corev1.EventTypeWarning, reason, "%s", message)
}

// condition sets a condition of the copy.
func (e *evaluation) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	c := autoscalingv2.HorizontalPodAutoscalerCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Time{Time: e.now.Truncate(time.Second)},
	}
	all := e.hpa.Status.Conditions
	for i := range all {
		if all[i].Type == kind {
			if all[i].Status == status {
				c.LastTransitionTime = all[i].LastTransitionTime
			}
			all[i] = c
			return
		}
	}
	e.hpa.Status.Conditions = append(all, c)
}

func (e *evaluation) status(now, wanted int32, scaled bool) {
	s := &e.hpa.Status
	*s = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: now, DesiredReplicas: wanted, LastScaleTime: s.LastScaleTime, CurrentMetrics: e.metrics, Conditions: s.Conditions,
	}
	if scaled {
		s.LastScaleTime = &metav1.Time{Time: e.now.Truncate(time.Second)}
	}
}

func (e *evaluation) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(e.before, &e.hpa.Status) {
		return nil
	}
	if _, err := e.writer.UpdateStatus(ctx, e.hpa); err != nil {
		e.fail(err)
		e.warn("FailedUpdateStatus", err.Error())
		return fmt.Errorf("write the status of autoscaler %s: %w", e.key, err)
	}
	return nil
}
