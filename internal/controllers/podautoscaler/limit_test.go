package podautoscaler

import (
	"math"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

func TestTheLargestStepOfAPolicyIsNoStepBack(t *testing.T) {
	const most = math.MaxInt32
	for name, c := range map[string]struct {
		kind  autoscalingv2.HPAScalingPolicyType
		began int64
		up    bool
		want  int32
	}{
		"many times as many pods": {autoscalingv2.PercentScalingPolicy, 200, true, most},
		"as many more pods":       {autoscalingv2.PodsScalingPolicy, 5, true, most},
		"fewer pods in percent":   {autoscalingv2.PercentScalingPolicy, most, false, math.MinInt32},
		"fewer pods":              {autoscalingv2.PodsScalingPolicy, -5, false, math.MinInt32},
	} {
		if got := reach(autoscalingv2.HPAScalingPolicy{Type: c.kind, Value: most, PeriodSeconds: 60}, c.began, c.up); got != c.want {
			t.Errorf("%s: %d, expected %d", name, got, c.want)
		}
	}
	if got := limitPlain(most-1, most, 1, most); got.replicas != most {
		t.Errorf("from almost the largest size it goes to %d", got.replicas)
	}
}
