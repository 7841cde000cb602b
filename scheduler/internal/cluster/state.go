package cluster

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/scheduler/internal/devices"
	"github.com/millrace/millrace/scheduler/internal/storage"
)

// State is the picture. The zero value is an empty cluster.
type State struct {
	nodes   []*Node // by index; nil: a free slot
	free    []int
	byName  map[string]*Node
	present int
	placed  map[Key]*placement
	changes changeLog

	zones         map[zone]int // the number of each zone that was ever seen
	images        map[string]*Image
	imagesVersion uint64

	namespaces        map[string]labels.Set
	namespacesVersion uint64
	affine            map[*Shape]int // shapes of placed pods with pod affinity or anti-affinity, and how many pods have it
	affineVersion     uint64

	workloads map[string]*workloads // by namespace

	priorities  map[int32]int // how many placed pods have each
	nominations nominations

	// Storage is what is known about volumes.
	Storage storage.Picture
	// Devices is what is known about devices.
	Devices    devices.Picture
	claimUsers map[Key]int // how many placed pods use each claim
}

// Node returns the node at an index, or nil if the slot is free.
func (s *State) Node(index int) *Node { return s.nodes[index] }

// NodeNamed finds a node by name.
func (s *State) NodeNamed(name string) (*Node, bool) {
	node, ok := s.byName[name]
	return node, ok
}

// Slots is the number of indexes in use or free.
func (s *State) Slots() int { return len(s.nodes) }

// Nodes is the number of nodes that are present.
func (s *State) Nodes() int { return s.present }

// All ranges over the nodes, those that are not present included.
func (s *State) All() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, node := range s.nodes {
			if node != nil && !yield(node) {
				return
			}
		}
	}
}

// Head is the place of the log's end.
func (s *State) Head() uint64 { return s.changes.head() }

// Since returns the indexes of the nodes that have changed since a place in
// the log, perhaps more than once each; false if the log does not reach back
// so far. The slice is good until the next change.
func (s *State) Since(place uint64) ([]int32, bool) { return s.changes.since(place) }

// SetNode takes in what the API shows of a node.
func (s *State) SetNode(object *corev1.Node) (*Node, Change) {
	node := s.node(object.Name)
	was := node.Present
	change := node.describe(object)
	node.Zone = s.zone(object.Labels)
	if !was {
		s.present++
		s.imagesVersion++
	}
	imagesChanged := s.setImages(node, object.Status.Images)
	if change != 0 || imagesChanged {
		s.touch(node)
	}
	return node, change
}

// RemoveNode takes in that a node has gone. Its pods still count until they go too.
func (s *State) RemoveNode(name string) bool {
	node, ok := s.byName[name]
	if !ok || !node.Present {
		return false
	}
	s.setImages(node, nil)
	node.vacate()
	s.present--
	s.imagesVersion++
	s.touch(node)
	s.release(node)
	return true
}

func (s *State) node(name string) *Node {
	if node, ok := s.byName[name]; ok {
		return node
	}
	if s.byName == nil {
		s.byName = make(map[string]*Node)
	}
	node := &Node{Name: name, Index: len(s.nodes)}
	if last := len(s.free) - 1; last >= 0 {
		node.Index = s.free[last]
		s.free = s.free[:last]
		s.nodes[node.Index] = node
	} else {
		s.nodes = append(s.nodes, node)
	}
	s.byName[name] = node
	return node
}

// release frees the slot of a node that neither the API nor any pod knows.
func (s *State) release(node *Node) {
	if node.Present || node.Pods > 0 {
		return
	}
	delete(s.byName, node.Name)
	s.nodes[node.Index] = nil
	s.free = append(s.free, node.Index)
}

func (s *State) touch(node *Node) { s.changes.append(int32(node.Index), len(s.nodes)) }
