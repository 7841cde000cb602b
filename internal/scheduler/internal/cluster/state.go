package cluster

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace/millrace/internal/scheduler/internal/devices"
	"github.com/millrace/millrace/internal/scheduler/internal/storage"
)

// State is the state of the cluster. The zero value is an empty cluster.
type State struct {
	nodes   []*Node // by index; nil: a free slot
	free    []int
	byName  map[string]*Node
	present int
	placed  map[Key]*placement
	changes changeLog

	zones         map[zone]int // the number of each zone that has been seen
	images        map[string]*Image
	imagesVersion uint64

	namespaces        map[string]labels.Set
	namespacesVersion uint64
	affine            map[*Shape]int // shapes of placed pods with pod affinity or anti-affinity, and the number of their pods
	affineVersion     uint64

	workloads map[string]*workloads // by namespace

	priorities  map[int32]int // the number of placed pods with each priority
	nominations nominations

	// Storage is the state of volumes.
	Storage storage.State
	// Devices is the state of devices.
	Devices    devices.State
	claimUsers map[Key]int // the number of placed pods that use each claim
}

// Node returns the node at an index, or nil if the slot is free.
func (s *State) Node(index int) *Node { return s.nodes[index] }

// NodeNamed finds a node by name.
func (s *State) NodeNamed(name string) (*Node, bool) {
	node, ok := s.byName[name]
	return node, ok
}

// Slots returns the number of indexes, used or free.
func (s *State) Slots() int { return len(s.nodes) }

// Nodes returns the number of nodes that are present.
func (s *State) Nodes() int { return s.present }

// All ranges over all nodes, including those that are not present.
func (s *State) All() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, node := range s.nodes {
			if node != nil && !yield(node) {
				return
			}
		}
	}
}

// Head returns the position of the log's end.
func (s *State) Head() uint64 { return s.changes.head() }

// Since returns the indexes of the nodes that have changed since a position in the log, with repetitions; false if the
// log does not go back so far. The slice is valid until the next change.
func (s *State) Since(place uint64) ([]int32, bool) { return s.changes.since(place) }

// SetNode sets a node from its object in the API.
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

// RemoveNode removes a node. Its pods count until they are removed too.
func (s *State) RemoveNode(name string) bool {
	node, ok := s.byName[name]
	if !ok || !node.Present {
		return false
	}
	s.setImages(node, nil)
	node.clear()
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
	node := &Node{Name: name, Index: len(s.nodes), devices: &s.Devices}
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

// release frees the slot of a node that neither the API nor a pod refers to.
func (s *State) release(node *Node) {
	if node.Present || node.Pods > 0 {
		return
	}
	delete(s.byName, node.Name)
	s.nodes[node.Index] = nil
	s.free = append(s.free, node.Index)
}

func (s *State) touch(node *Node) { s.changes.append(int32(node.Index), len(s.nodes)) }

// TouchAll lets every node count as changed, because of something that the results for all of them depend on.
func (s *State) TouchAll() { s.changes.all() }

// TouchNode lets a node count as changed, because of something else that results for it depend on.
func (s *State) TouchNode(name string) {
	if node, ok := s.byName[name]; ok {
		s.touch(node)
	}
}
