package config

import (
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/millrace/millrace/internal/scheduler/plugin"
	"github.com/millrace/millrace/internal/scheduler/rules"
)

// maxShapeScore is the maximum score of a point in a configuration.
const maxShapeScore = 10

func shapeOf(points []configv1.UtilizationShapePoint) rules.Shape {
	var shape rules.Shape
	for _, p := range points {
		shape = append(shape, rules.ShapePoint{Utilization: int64(p.Utilization), Score: int64(p.Score) * plugin.MaxScore / maxShapeScore})
	}
	return shape
}

// plain reports whether the resources are cpu and memory with equal weights, for which rules are faster.
func plain(list []configv1.ResourceSpec) bool {
	return len(list) == 2 && list[0].Name == string(corev1.ResourceCPU) && list[1].Name == string(corev1.ResourceMemory) &&
		list[0].Weight == 1 && list[1].Weight == 1
}

func resourcesOf(args *configv1.NodeResourcesFitArgs) rules.ResourcesOptions {
	if args == nil {
		return rules.ResourcesOptions{}
	}
	o := rules.ResourcesOptions{Ignored: args.IgnoredResources, IgnoredGroups: args.IgnoredResourceGroups}
	s := args.ScoringStrategy
	if s.Type == configv1.LeastAllocated && plain(s.Resources) {
		return o
	}
	o.Strategy.Type = rules.StrategyType(s.Type)
	for _, r := range s.Resources {
		o.Strategy.Resources = append(o.Strategy.Resources, rules.WeightedResource{Name: corev1.ResourceName(r.Name), Weight: r.Weight})
	}
	if s.RequestedToCapacityRatio != nil {
		o.Strategy.Shape = shapeOf(s.RequestedToCapacityRatio.Shape)
	}
	return o
}

func balanced(args *configv1.NodeResourcesBalancedAllocationArgs) []corev1.ResourceName {
	if args == nil || plain(args.Resources) {
		return nil
	}
	var list []corev1.ResourceName
	for _, r := range args.Resources {
		list = append(list, corev1.ResourceName(r.Name))
	}
	return list
}

func spreadOf(args *configv1.PodTopologySpreadArgs) rules.SpreadOptions {
	if args == nil || args.DefaultingType == configv1.SystemDefaulting {
		return rules.SpreadOptions{}
	}
	return rules.SpreadOptions{Listed: true, Default: args.DefaultConstraints}
}

func affinityOf(args *configv1.InterPodAffinityArgs) rules.PodAffinityOptions {
	if args == nil {
		return rules.PodAffinityOptions{}
	}
	weight := int64(*args.HardPodAffinityWeight)
	return rules.PodAffinityOptions{RequiredWeight: &weight, IgnorePreferred: args.IgnorePreferredTermsOfExistingPods}
}
