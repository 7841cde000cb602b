package rules

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Strategy rates the utilization of a node's resources. The zero value is LeastAllocated of cpu and memory.
type Strategy struct {
	Type      StrategyType
	Resources []WeightedResource
	Shape     Shape // for RequestedToCapacityRatio
}

// StrategyType is the name of a strategy; empty means LeastAllocated.
type StrategyType string

// kube-scheduler's strategies.
const (
	LeastAllocated           StrategyType = "LeastAllocated"
	MostAllocated            StrategyType = "MostAllocated"
	RequestedToCapacityRatio StrategyType = "RequestedToCapacityRatio"
)

// WeightedResource is a resource and its weight.
type WeightedResource struct {
	Name   corev1.ResourceName
	Weight int64
}

func (s *Strategy) isDefault() bool { return s.Type == "" && len(s.Resources) == 0 }

// score rates a node with the pod on it.
func (s *Strategy) score(d *cluster.Demand, node *cluster.Node) int64 {
	var sum, weights int64
	for _, r := range s.Resources {
		have := amount(&node.Allocatable, r.Name)
		asked, used := scored(&d.Requests, &d.Scored, r.Name), scored(&node.Requested, &node.Scored, r.Name)
		if have == 0 && asked > 0 {
			have, used = node.ClaimedAmounts(r.Name)
		}
		if have == 0 || asked == 0 && isExtended(r.Name) {
			continue
		}
		rate := s.rate(used+asked, have)
		if s.Type == RequestedToCapacityRatio && rate == 0 {
			continue
		}
		sum += rate * r.Weight
		weights += r.Weight
	}
	switch {
	case weights == 0:
		return 0
	case s.Type == RequestedToCapacityRatio:
		return int64(math.Round(float64(sum) / float64(weights)))
	}
	return sum / weights
}

func (s *Strategy) rate(used, have int64) int64 {
	switch s.Type {
	case MostAllocated:
		return min(used, have) * plugin.MaxScore / have
	case RequestedToCapacityRatio:
		return s.Shape.at(min(used, have) * plugin.MaxScore / have)
	}
	return max(0, have-used) * plugin.MaxScore / have
}

// scored is amount, with defaults for containers that request neither cpu nor memory.
func scored(requested, withDefaults *demand.Resources, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory:
		return amount(withDefaults, name)
	}
	return amount(requested, name)
}

// amount returns the amount of a resource.
func amount(r *demand.Resources, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.MilliCPU
	case corev1.ResourceMemory:
		return r.Memory
	case corev1.ResourceEphemeralStorage:
		return r.EphemeralStorage
	}
	return r.Extended[name]
}

func isExtended(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return false
	}
	return true
}
