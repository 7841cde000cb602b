package rules

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// hasAlternatives tells that a claim prefers some devices to others.
func hasAlternatives(c *resourcev1.ResourceClaim) bool {
	return slices.ContainsFunc(c.Spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return len(r.FirstAvailable) > 1 })
}

// rate remembers how good the devices are that open claims can have on a node: the earlier an alternative is in its
// list, the better.
func (a *allocation) rate(node *cluster.Node, results []resourcev1.AllocationResult) {
	if a.ratings == nil {
		return
	}
	var sum int64
	for i, c := range a.open {
		for j := range c.Spec.Devices.Requests {
			r := &c.Spec.Devices.Requests[j]
			at := slices.IndexFunc(r.FirstAvailable, func(sub resourcev1.DeviceSubRequest) bool {
				return slices.ContainsFunc(results[i].Devices.Results, func(d resourcev1.DeviceRequestAllocationResult) bool {
					return d.Request == r.Name+"/"+sub.Name
				})
			})
			if at >= 0 {
				sum += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - at)
			}
		}
	}
	a.ratings[node.Name] = sum
}

// Scores implements [plugin.CaseScore].
func (a *allocation) Scores() bool { return a.ratings != nil }

// Score prefers nodes that have what comes early in lists of alternatives. The node has been admitted before.
func (a *allocation) Score(node *cluster.Node) int64 { return a.ratings[node.Name] }

// Normalize compares with the best node.
func (a *allocation) Normalize(raw, _, highest int64) int64 { return shareOf(raw, highest) }
