package rules

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Balance prefers nodes whose cpu and memory would be used more equally with the pod than without it.
type Balance struct {
	// Resources are the compared resources. None means cpu and memory.
	Resources []corev1.ResourceName
}

// Name is NodeResourcesBalancedAllocation.
func (Balance) Name() string { return "NodeResourcesBalancedAllocation" }

// Skip reports whether the pod requests none of them.
func (b Balance) Skip(demand *cluster.Demand) bool {
	if len(b.Resources) > 0 {
		return !slices.ContainsFunc(b.Resources, func(name corev1.ResourceName) bool { return amount(&demand.Requests, name) > 0 })
	}
	return demand.Requests.MilliCPU == 0 && demand.Requests.Memory == 0
}

// ScoresExtended reports whether an extended resource is compared.
func (b Balance) ScoresExtended() bool { return slices.ContainsFunc(b.Resources, cluster.IsExtended) }

// Score is 75 if the pod does not change the balance, up to 100 if it improves it and down to 50 if it makes it worse.
func (b Balance) Score(demand *cluster.Demand, node *cluster.Node) int64 {
	const half = plugin.MaxScore / 2
	if len(b.Resources) > 0 {
		return half + (half+b.of(demand, node, true)-b.of(demand, node, false))/2
	}
	with := balance(node, demand.Requests.MilliCPU, demand.Requests.Memory)
	without := balance(node, 0, 0)
	return half + (half+with-without)/2
}

// balance is 100 if the same share of cpu and memory is used, and 50 if all of one and nothing of the other.
func balance(node *cluster.Node, milliCPU, memory int64) int64 {
	if node.Allocatable.MilliCPU == 0 || node.Allocatable.Memory == 0 {
		return plugin.MaxScore
	}
	cpu := usedShare(node.Requested.MilliCPU+milliCPU, node.Allocatable.MilliCPU)
	mem := usedShare(node.Requested.Memory+memory, node.Allocatable.Memory)
	// The standard deviation of two numbers is half their difference.
	return int64((1 - math.Abs(cpu-mem)/2) * plugin.MaxScore)
}

// of is balance for any resources. Resources that the node does not have, and extended ones that the pod does not
// request, do not count.
func (b Balance) of(demand *cluster.Demand, node *cluster.Node, with bool) int64 {
	var shares []float64
	var sum float64
	for _, name := range b.Resources {
		have, asked := amount(&node.Allocatable, name), amount(&demand.Requests, name)
		used := amount(&node.Requested, name)
		if have == 0 && asked > 0 {
			have, used = node.ClaimedAmounts(name)
		}
		if have == 0 || asked == 0 && isExtended(name) {
			continue
		}
		if with {
			used += asked
		}
		share := usedShare(used, have)
		shares = append(shares, share)
		sum += share
	}
	if len(shares) < 2 {
		return plugin.MaxScore
	}
	if len(shares) == 2 {
		return int64((1 - math.Abs((shares[0]-shares[1])/2)) * plugin.MaxScore)
	}
	mean, squares := sum/float64(len(shares)), 0.0
	for _, share := range shares {
		squares += (share - mean) * (share - mean)
	}
	return int64((1 - math.Sqrt(squares/float64(len(shares)))) * plugin.MaxScore)
}

func usedShare(used, have int64) float64 { return min(1, float64(used)/float64(have)) }
