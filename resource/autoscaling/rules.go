package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/millrace/millrace/resource"
)

var autoscalerRules, autoscalerStatusRules resource.Rules[*autoscalingv2.HorizontalPodAutoscaler]
