package placement

import (
	"slices"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
)

// Score rates nodes for one pod.
type Score struct {
	Weight int64
	Of     func(*cluster.Node) int64
	// Normalize converts a rating to 0 to [plugin.MaxScore]; nil: all are in that range. It gets the lowest and the
	// highest one too.
	Normalize func(raw, lowest, highest int64) int64
}

// rate returns what the scores add to the totals of nodes.
func (x *Extra) rate(nodes []*cluster.Node) []int64 {
	sums, raw := make([]int64, len(nodes)), make([]int64, len(nodes))
	for _, s := range x.Scores {
		for i, node := range nodes {
			raw[i] = s.Of(node)
		}
		if s.Normalize != nil && len(raw) > 0 {
			lowest, highest := slices.Min(raw), slices.Max(raw)
			for i := range raw {
				raw[i] = s.Normalize(raw[i], lowest, highest)
			}
		}
		for i := range sums {
			sums[i] += s.Weight * raw[i]
		}
	}
	return sums
}
