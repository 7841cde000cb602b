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

// look is one look at an autoscaler. It owns its copy, and writes the status once at the end.
type look struct {
	*controller
	*memory
	key    loop.Key
	now    time.Time
	hpa    *autoscalingv2.HorizontalPodAutoscaler
	before *autoscalingv2.HorizontalPodAutoscalerStatus

	// why and metrics are what was found out on the way: the reason of a change, and the figures.
	why     string
	metrics []autoscalingv2.MetricStatus
}

func (l *look) do(ctx context.Context) error {
	t, err := l.target(ctx)
	if err != nil {
		l.warn("FailedGetScale", err.Error())
		l.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale", fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err))
		return l.write(ctx)
	}
	l.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	now := t.scale.Spec.Replicas
	if l.recommendations == nil {
		l.recommendations = []sample{{now, l.now}}
	}
	wanted, failed := l.wanted(ctx, t.scale)
	if failed != nil && wanted < 0 {
		l.status(now, l.hpa.Status.DesiredReplicas, false)
		err := l.write(ctx)
		l.warn("FailedComputeMetricsReplicas", failed.Error())
		return err
	}
	if wanted == now {
		l.status(now, now, false)
		return l.write(ctx)
	}
	if err := t.set(ctx, wanted); err != nil {
		l.warn("FailedRescale", fmt.Sprintf("New size: %d; reason: %s; error: %v", wanted, l.why, err))
		l.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale", fmt.Sprintf("the HPA controller was unable to update the target scale: %v", err))
		l.status(now, l.hpa.Status.DesiredReplicas, false)
		return l.write(ctx)
	}
	l.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", wanted))
	l.recorder.Eventf(l.hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", wanted, l.why)
	l.scaled(now, wanted)
	l.status(now, wanted, true)
	return l.write(ctx)
}

// wanted is how many replicas there shall be. It is -1, with an error, if that cannot be said.
func (l *look) wanted(ctx context.Context, scale *autoscalingv1.Scale) (int32, error) {
	now, least := scale.Spec.Replicas, l.least()
	switch {
	case now == 0:
		l.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		return 0, nil
	case now > l.hpa.Spec.MaxReplicas:
		l.why = "Current number of replicas above Spec.MaxReplicas"
		return l.hpa.Spec.MaxReplicas, nil
	case now < least:
		l.why = "Current number of replicas below Spec.MinReplicas"
		return least, nil
	}
	proposed, metric, err := l.propose(ctx, scale)
	if err != nil && proposed < 0 {
		return -1, err
	}
	switch {
	case proposed > now:
		l.why = metric + " above target"
	case proposed < now:
		l.why = "All metrics below target"
	}
	return l.limit(now, proposed), err
}

func (l *look) least() int32 {
	if l.hpa.Spec.MinReplicas != nil {
		return *l.hpa.Spec.MinReplicas
	}
	return 1
}

func (l *look) warn(reason, message string) {
	l.recorder.Eventf(l.hpa, corev1.EventTypeWarning, reason, "%s", message)
}

// condition sets a condition of the copy.
func (l *look) condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, message string) {
	c := autoscalingv2.HorizontalPodAutoscalerCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Time{Time: l.now.Truncate(time.Second)},
	}
	all := l.hpa.Status.Conditions
	for i := range all {
		if all[i].Type == kind {
			if all[i].Status == status {
				c.LastTransitionTime = all[i].LastTransitionTime
			}
			all[i] = c
			return
		}
	}
	l.hpa.Status.Conditions = append(all, c)
}

func (l *look) status(now, wanted int32, scaled bool) {
	s := &l.hpa.Status
	*s = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: now, DesiredReplicas: wanted, LastScaleTime: s.LastScaleTime, CurrentMetrics: l.metrics, Conditions: s.Conditions,
	}
	if scaled {
		s.LastScaleTime = &metav1.Time{Time: l.now.Truncate(time.Second)}
	}
}

func (l *look) write(ctx context.Context) error {
	if equality.Semantic.DeepEqual(l.before, &l.hpa.Status) {
		return nil
	}
	if _, err := l.writer.UpdateStatus(ctx, l.hpa); err != nil {
		l.warn("FailedUpdateStatus", err.Error())
		return fmt.Errorf("write the status of autoscaler %s: %w", l.key, err)
	}
	return nil
}
