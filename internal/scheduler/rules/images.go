package rules

import (
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/ruleset"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// Images prefers nodes that have the pod's images. Larger images count more. Images that few nodes have count less:
// otherwise the first node with an image would get all pods that use it.
type Images struct{}

// Name is ImageLocality.
func (Images) Name() string { return "ImageLocality" }

// Version changes with the images of all nodes.
func (Images) Version(_ *cluster.Shape, state *cluster.State) uint64 { return state.ImagesVersion() }

// Relations returns nothing if no node has any of the images.
func (Images) Relations(shape *cluster.Shape, state *cluster.State) []ruleset.Relation {
	worth := make(map[*cluster.Image]int64)
	for _, name := range shape.Images {
		if image, ok := state.Image(name); ok {
			spread := float64(image.Nodes) / float64(max(1, state.Nodes()))
			worth[image] += int64(float64(image.Size) * spread)
		}
	}
	if len(worth) == 0 {
		return nil
	}
	return []ruleset.Relation{imageScore{state: state, worth: worth, containers: int64(len(shape.Images))}}
}

// imageScore has the score of each image. It is made again when these change.
type imageScore struct {
	state      *cluster.State
	worth      map[*cluster.Image]int64
	containers int64
}

// An image below the minimum does not count; for each container, size above the maximum does not count.
const (
	imageWorthMin = 23 << 20
	imageWorthMax = 1000 << 20
)

func (imageScore) Refresh([]int32) {}

func (imageScore) Version() uint64 { return 0 }

func (s imageScore) Score(node int) int64 {
	var sum int64
	for _, image := range s.state.Node(node).Images {
		sum += s.worth[image]
	}
	most := imageWorthMax * s.containers
	sum = min(max(sum, imageWorthMin), most)
	return plugin.MaxScore * (sum - imageWorthMin) / (most - imageWorthMin)
}

func (imageScore) Normalize(raw, _, _ int64) int64 { return raw }
