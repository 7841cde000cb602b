package past

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/api/flowcontrol/v1beta1"
	"k8s.io/api/flowcontrol/v1beta2"
	"k8s.io/api/flowcontrol/v1beta3"
)

func flows(k byName) {
	const group = flowcontrolv1.GroupName
	add(k, group, "flowschemas",
		alike[*flowcontrolv1.FlowSchema, v1beta1.FlowSchema](v1beta1.SchemeGroupVersion, "FlowSchema"),
		alike[*flowcontrolv1.FlowSchema, v1beta2.FlowSchema](v1beta2.SchemeGroupVersion, "FlowSchema"),
		alike[*flowcontrolv1.FlowSchema, v1beta3.FlowSchema](v1beta3.SchemeGroupVersion, "FlowSchema"))
	const level = "PriorityLevelConfiguration"
	add(k, group, "prioritylevelconfigurations",
		alike(v1beta1.SchemeGroupVersion, level, func(now *flowcontrolv1.PriorityLevelConfiguration, old *v1beta1.PriorityLevelConfiguration) {
			if l := old.Spec.Limited; l != nil {
				shares(now, l.AssuredConcurrencyShares)
			}
		}),
		alike(v1beta2.SchemeGroupVersion, level, func(now *flowcontrolv1.PriorityLevelConfiguration, old *v1beta2.PriorityLevelConfiguration) {
			if l := old.Spec.Limited; l != nil {
				shares(now, l.AssuredConcurrencyShares)
			}
		}),
		alike(v1beta3.SchemeGroupVersion, level, func(now *flowcontrolv1.PriorityLevelConfiguration, old *v1beta3.PriorityLevelConfiguration) {
			if l := old.Spec.Limited; l != nil {
				shares(now, l.NominalConcurrencyShares)
			}
		}))
}

// shares sets the share of a level. In the old versions zero means that none is given.
func shares(now *flowcontrolv1.PriorityLevelConfiguration, n int32) {
	now.Spec.Limited.NominalConcurrencyShares = nil
	if n != 0 {
		now.Spec.Limited.NominalConcurrencyShares = &n
	}
}
