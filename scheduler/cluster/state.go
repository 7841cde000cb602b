package cluster

import (
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// State is the picture. The zero value is an empty cluster.
type State struct {
	nodes   []*Node // by index; nil: a free slot
	free    []int
	byName  map[string]*Node
	present int
	placed  map[Key]*placement
	changes changeLog

	images     map[string]*Image
	imageEpoch uint64

	namespaces map[string]labels.Set
	namespace  uint64         // epoch of the above
	opinions   map[*Shape]int // shapes of placed pods that care about other pods, and how many pods
	opinion    uint64         // epoch of the above

	workloads map[string]*workloads // by namespace
}

type placement struct {
	pod     *Pod
	node    *Node
	assumed bool
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
	if !was {
		s.present++
		s.imageEpoch++
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
	s.imageEpoch++
	s.touch(node)
	s.release(node)
	return true
}

// Assume places a pod on a node on the scheduler's own word, to be confirmed by Observe or taken back by Forget.
func (s *State) Assume(pod *Pod, node *Node) { s.place(pod, node, true) }

// Observe takes in that the API shows a pod on a node, and says what that changes.
func (s *State) Observe(pod *Pod) Change {
	old, known := s.placed[pod.Key]
	if known && old.node.Name == pod.Node && old.pod.UID == pod.UID &&
		old.pod.Shape == pod.Shape && old.pod.Terminating == pod.Terminating {
		assumed := old.assumed
		old.pod, old.assumed = pod, false
		if assumed {
			return PodPlaced
		}
		return 0
	}
	var change Change
	switch {
	case !known:
		change = PodPlaced
	case old.pod.UID != pod.UID || old.node.Name != pod.Node:
		change = PodGone | PodPlaced
	default:
		change = PodGone | PodChanged
	}
	s.place(pod, s.node(pod.Node), false)
	return change
}

// Refresh takes in a new version of a pod that is assumed while the API does
// not show its node yet. It says whether the pod is known as assumed.
func (s *State) Refresh(pod *Pod) bool {
	p, ok := s.placed[pod.Key]
	if !ok || !p.assumed || p.pod.UID != pod.UID {
		return false
	}
	if p.pod.Shape != pod.Shape || p.pod.Terminating != pod.Terminating {
		s.place(pod, p.node, true)
	}
	return true
}

// Forget takes back an assumption, because the binding is known not to be. A pod that has been confirmed stays.
func (s *State) Forget(key Key, uid types.UID) bool {
	p, ok := s.placed[key]
	if !ok || !p.assumed || p.pod.UID != uid {
		return false
	}
	s.unplace(p)
	return true
}

// Remove takes in that a pod has gone, or has come to its end. It returns the node that it was on.
func (s *State) Remove(key Key) (*Node, bool) {
	p, ok := s.placed[key]
	if !ok {
		return nil, false
	}
	s.unplace(p)
	return p.node, true
}

// Placed returns what is known of a pod's place.
func (s *State) Placed(key Key) (pod *Pod, node *Node, assumed, ok bool) {
	p, ok := s.placed[key]
	if !ok {
		return nil, nil, false, false
	}
	return p.pod, p.node, p.assumed, true
}

// Assumed is the number of pods whose place no watch has shown yet.
func (s *State) Assumed() int {
	n := 0
	for _, p := range s.placed {
		if p.assumed {
			n++
		}
	}
	return n
}

// Pods ranges over the placed pods and their nodes.
func (s *State) Pods() iter.Seq2[*Pod, *Node] {
	return func(yield func(*Pod, *Node) bool) {
		for _, p := range s.placed {
			if !yield(p.pod, p.node) {
				return
			}
		}
	}
}

// SetNamespace takes in a namespace's labels; nil if it has gone.
func (s *State) SetNamespace(name string, set map[string]string) bool {
	if old, ok := s.namespaces[name]; ok == (set != nil) && maps.Equal(old, set) {
		return false
	}
	if s.namespaces == nil {
		s.namespaces = make(map[string]labels.Set)
	}
	if set == nil {
		delete(s.namespaces, name)
	} else {
		s.namespaces[name] = set
	}
	s.namespace++
	return true
}

// Selects says whether a term looks at a pod of this shape.
func (s *State) Selects(term *Term, shape *Shape) bool {
	return s.inNamespaces(term, shape.Namespace) && term.Selector.Matches(shape.Labels)
}

func (s *State) inNamespaces(term *Term, namespace string) bool {
	for _, name := range term.Namespaces {
		if name == namespace {
			return true
		}
	}
	return term.NamespacesBy != nil && term.NamespacesBy.Matches(s.namespaces[namespace])
}

// Opinions ranges over the shapes of placed pods that care about other pods.
func (s *State) Opinions() iter.Seq[*Shape] { return maps.Keys(s.opinions) }

// OpinionEpoch changes when Opinions or the labels of namespaces do.
func (s *State) OpinionEpoch() uint64 { return s.opinion + s.namespace }

// NamespaceEpoch changes when the labels of namespaces do, and with them what Selects says.
func (s *State) NamespaceEpoch() uint64 { return s.namespace }

// Image finds an image that some node has.
func (s *State) Image(name string) (*Image, bool) {
	image, ok := s.images[name]
	return image, ok
}

// ImageEpoch changes when nodes come or go or have other images.
func (s *State) ImageEpoch() uint64 { return s.imageEpoch }

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

func (s *State) place(pod *Pod, node *Node, assumed bool) {
	if old, ok := s.placed[pod.Key]; ok {
		// The node is held, so that leaving it and coming back does not free its slot.
		node.Pods++
		s.unplace(old)
		node.Pods--
	}
	if s.placed == nil {
		s.placed = make(map[Key]*placement)
	}
	s.placed[pod.Key] = &placement{pod: pod, node: node, assumed: assumed}
	node.add(pod)
	if pod.Shape.Opinionated() {
		s.countOpinion(pod.Shape, 1)
	}
	s.touch(node)
}

func (s *State) unplace(p *placement) {
	delete(s.placed, p.pod.Key)
	p.node.remove(p.pod)
	if p.pod.Shape.Opinionated() {
		s.countOpinion(p.pod.Shape, -1)
	}
	s.touch(p.node)
	s.release(p.node)
}

func (s *State) countOpinion(shape *Shape, by int) {
	if s.opinions == nil {
		s.opinions = make(map[*Shape]int)
	}
	before := s.opinions[shape]
	switch after := before + by; after {
	case 0:
		delete(s.opinions, shape)
	default:
		s.opinions[shape] = after
	}
	if before == 0 || before+by == 0 {
		s.opinion++
	}
}

// setImages returns whether the node has other images than before.
func (s *State) setImages(node *Node, list []corev1.ContainerImage) bool {
	if sameImages(node.Images, list) {
		return false
	}
	for _, image := range node.Images {
		if image.Nodes--; image.Nodes == 0 {
			delete(s.images, image.Name)
		}
	}
	node.Images = nil
	for i := range list {
		for _, name := range list[i].Names {
			node.Images = append(node.Images, s.haveImage(name, list[i].SizeBytes))
		}
	}
	s.imageEpoch++
	return true
}

func (s *State) haveImage(name string, size int64) *Image {
	image, ok := s.images[name]
	if !ok {
		if s.images == nil {
			s.images = make(map[string]*Image)
		}
		image = &Image{Name: name, Size: size}
		s.images[name] = image
	}
	image.Nodes++
	return image
}

// sameImages compares names only: one name can stand for several sizes, one for each architecture.
func sameImages(have []*Image, list []corev1.ContainerImage) bool {
	i := 0
	for j := range list {
		for _, name := range list[j].Names {
			if i >= len(have) || have[i].Name != name {
				return false
			}
			i++
		}
	}
	return i == len(have)
}

func (s *State) touch(node *Node) { s.changes.append(int32(node.Index), len(s.nodes)) }
