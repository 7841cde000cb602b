package rules

import (
	"math"

	"github.com/millrace/millrace/scheduler/internal/cluster"
	"github.com/millrace/millrace/scheduler/plugin"
)

// Balance prefers nodes whose cpu and memory would be used more equally with the pod than without it.
type Balance struct{}

// Name is NodeResourcesBalancedAllocation.
func (Balance) Name() string { return "NodeResourcesBalancedAllocation" }

// Skip says whether the pod asks for neither.
func (Balance) Skip(demand *cluster.Demand) bool {
	return demand.Requests.MilliCPU == 0 && demand.Requests.Memory == 0
}

// Score is 75 if the pod leaves the balance as it is, up to 100 if it mends it and down to 50 if it spoils it.
func (Balance) Score(demand *cluster.Demand, node *cluster.Node) int64 {
	const half = plugin.MaxScore / 2
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
	// The standard deviation of two numbers is half their distance.
	return int64((1 - math.Abs(cpu-mem)/2) * plugin.MaxScore)
}

func usedShare(used, have int64) float64 { return min(1, float64(used)/float64(have)) }
