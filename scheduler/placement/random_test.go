package placement_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/scheduler/cluster"
	"github.com/millrace/millrace/scheduler/placement"
	"github.com/millrace/millrace/scheduler/rules"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed of the random tests; 0: by the clock")
	stepsFlag = flag.Int("steps", 1500, "steps of the random tests")
)

// TestSharedResultsEqualLookingAtEveryNode places pods of few kinds, so that
// all they share is used again and again, in a cluster that changes all the
// time, and compares each decision with the reference.
func TestSharedResultsEqualLookingAtEveryNode(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	s := newStory(t, seed)
	for range *stepsFlag {
		s.step()
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, s.steps)
		}
	}
	t.Logf("%d placed, %d refused", s.placedCount, s.refusedCount)
	if s.placedCount == 0 || s.refusedCount == 0 {
		t.Error("the story is too simple: nothing was placed, or nothing refused")
	}
}

// story is a random sequence of what happens in a cluster, told to the state and to the reference.
type story struct {
	*testing.T
	*rand.Rand
	reference
	state     cluster.State
	interner  cluster.Interner
	engine    *placement.Engine
	templates []*corev1.Pod
	steps     int

	placedCount, refusedCount int
}

func newStory(t *testing.T, seed uint64) *story {
	s := &story{T: t, Rand: rand.New(rand.NewPCG(seed, 1))}
	s.reference = reference{
		nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{},
		namespaces: map[string]map[string]string{}, services: map[string]map[string]string{},
	}
	s.engine = placement.New(&s.state, rules.Defaults(), s.Rand)
	for range 12 {
		s.templates = append(s.templates, s.template())
	}
	for range 8 {
		s.setNode()
	}
	s.setNamespace()
	return s
}

func (s *story) step() {
	s.steps++
	switch n := s.IntN(100); {
	case n < 55:
		s.place()
	case n < 75:
		s.removePod()
	case n < 80:
		s.endPod()
	case n < 90:
		s.setNode()
	case n < 93:
		s.removeNode()
	case n < 95:
		s.templates[s.IntN(len(s.templates))] = s.template()
	case n < 97:
		s.setNamespace()
	default:
		s.setService()
	}
}

func (s *story) place() {
	pod := s.templates[s.IntN(len(s.templates))].DeepCopy()
	pod.Name = fmt.Sprintf("pod-%d", s.steps)
	pod.UID = types.UID(pod.Name)
	if s.IntN(10) == 0 {
		pod.Labels["only"] = pod.Name // as the pods of stateful sets have
	}
	parsed := s.interner.Pod(pod)
	node, failure := s.engine.Place(parsed.Shape)
	if len(s.reference.nodes) == 0 {
		if failure == nil || failure.Error() != "no nodes available to schedule pods" {
			s.Errorf("without nodes: %v %v", node, failure)
		}
		return
	}
	refusals, totals := s.judge(pod)
	if failure != nil {
		s.refusedCount++
		if len(totals) > 0 {
			s.Errorf("%s was refused (%s), the reference has %v", pod.Name, failure, totals)
		} else if want := message(refusals); failure.Error() != want {
			s.Errorf("%s was refused:\n%s\nwant\n%s", pod.Name, failure, want)
		}
		return
	}
	s.placedCount++
	s.checkBest(pod, node.Name, refusals, totals)
	pod.Spec.NodeName = node.Name
	if s.IntN(2) == 0 {
		s.state.Assume(parsed, node)
	}
	s.state.Observe(s.interner.Pod(pod))
	s.reference.pods[pod.Name] = pod
}

func (s *story) checkBest(pod *corev1.Pod, node string, refusals map[string][]string, totals map[string]int64) {
	total, ok := totals[node]
	if !ok {
		s.Errorf("%s was placed on %s, which refuses it: %v", pod.Name, node, refusals[node])
		return
	}
	for name, other := range totals {
		if other > total || other == total && len(s.podsOn(name)) < len(s.podsOn(node)) {
			s.Errorf("%s was placed on %s with %d and %d pods, better is %s with %d and %d pods",
				pod.Name, node, total, len(s.podsOn(node)), name, other, len(s.podsOn(name)))
		}
	}
}

func pick[T any](s *story, list ...T) T { return list[s.IntN(len(list))] }

func (s *story) anyPod() (*corev1.Pod, bool) {
	names := slices.Sorted(maps.Keys(s.reference.pods))
	if len(names) == 0 {
		return nil, false
	}
	return s.reference.pods[pick(s, names...)], true
}

func (s *story) removePod() {
	if pod, ok := s.anyPod(); ok {
		delete(s.reference.pods, pod.Name)
		s.state.Remove(cluster.Key{Namespace: pod.Namespace, Name: pod.Name})
	}
}

func (s *story) endPod() {
	if pod, ok := s.anyPod(); ok {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		s.state.Observe(s.interner.Pod(pod))
	}
}

func (s *story) removeNode() {
	if names := s.nodeNames(); len(names) > 0 {
		name := pick(s, names...)
		delete(s.reference.nodes, name)
		s.state.RemoveNode(name)
	}
}

func (s *story) setNamespace() {
	name, set := pick(s, "default", "other"), map[string]string{"team": pick(s, "a", "b")}
	s.namespaces[name] = set
	s.state.SetNamespace(name, set)
}

func (s *story) setService() {
	name := pick(s, "one", "two")
	if s.IntN(2) == 0 {
		delete(s.services, name)
		s.state.SetService("default", name, nil)
		return
	}
	set := map[string]string{"app": pick(s, "x", "y", "z")}
	if name == "two" {
		set = map[string]string{"tier": pick(s, "1", "2")}
	}
	s.services[name] = set
	s.state.SetService("default", name, labels.SelectorFromSet(set))
}

func (s *story) setNode() {
	name := fmt.Sprintf("node-%02d", s.IntN(14))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if s.IntN(10) > 0 {
		node.Labels[corev1.LabelHostname] = name
	}
	if s.IntN(10) > 0 {
		node.Labels[corev1.LabelTopologyZone] = pick(s, "east", "west", "north")
	}
	node.Labels["disk"] = pick(s, "ssd", "hdd")
	node.Spec.Unschedulable = s.IntN(15) == 0
	if s.IntN(4) == 0 {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: pick(s, "gpu", "spot"), Value: "yes",
			Effect: pick(s, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute),
		})
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(pick(s, "4", "8")),
		corev1.ResourceMemory: resource.MustParse(pick(s, "8Gi", "16Gi")),
		corev1.ResourcePods:   resource.MustParse(pick(s, "6", "20")),
	}
	if s.IntN(3) == 0 {
		node.Status.Allocatable["example.com/device"] = resource.MustParse("2")
	}
	for _, image := range []string{"web:1", "db:1"} {
		if s.IntN(3) == 0 {
			node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: 700 << 20})
		}
	}
	s.reference.nodes[name] = node
	s.state.SetNode(node)
}

// template returns a pod with a few random wishes.
func (s *story) template() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pick(s, "default", "default", "other"),
		Labels:    map[string]string{"app": pick(s, "x", "y", "z"), "tier": pick(s, "1", "2")},
	}}
	c := corev1.Container{Name: "c", Image: pick(s, "web:1", "db:1", "tool:1")}
	c.Resources.Requests = corev1.ResourceList{}
	if s.IntN(3) > 0 {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(pick(s, "100m", "500m", "1"))
	}
	if s.IntN(3) > 0 {
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(pick(s, "128Mi", "1Gi"))
	}
	if s.IntN(8) == 0 {
		c.Resources.Requests["example.com/device"] = resource.MustParse("1")
	}
	if s.IntN(8) == 0 {
		c.Ports = []corev1.ContainerPort{{HostPort: pick[int32](s, 80, 443), Protocol: "TCP"}}
	}
	pod.Spec.Containers = []corev1.Container{c}
	for _, wish := range []func(*corev1.Pod){s.wishNode, s.wishTolerations, s.wishSpread, s.wishCompany, s.wishDistance} {
		if s.IntN(3) == 0 {
			wish(pod)
		}
	}
	return pod
}

func (s *story) wishNode(pod *corev1.Pod) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: pick(s, "disk", corev1.LabelTopologyZone), Operator: pick(s, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
		Values: []string{pick(s, "ssd", "east"), "west"},
	}}}
	switch s.IntN(4) {
	case 3: // as the pods of daemon sets have
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("node-%02d", s.IntN(14))},
			}}}},
		}}
	case 0:
		pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	case 1:
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		}}
	case 2:
		affinity(pod).NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 10, Preference: term},
			{Weight: 3, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpExists},
			}}},
		}}
	}
}

func affinity(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func (s *story) wishTolerations(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{pick(s,
		corev1.Toleration{Operator: corev1.TolerationOpExists},
		corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "yes"},
		corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	)}
}

func (s *story) selector() *metav1.LabelSelector {
	if s.IntN(3) == 0 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": pick(s, "1", "2")}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(s, "x", "y", "z")}}
}

func (s *story) topology() string { return pick(s, corev1.LabelHostname, corev1.LabelTopologyZone) }

func (s *story) wishSpread(pod *corev1.Pod) {
	for range 1 + s.IntN(2) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: pick[int32](s, 1, 2), TopologyKey: s.topology(), LabelSelector: s.selector(),
			WhenUnsatisfiable: pick(s, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		}
		if s.IntN(3) == 0 {
			c.MatchLabelKeys = []string{"tier"}
		}
		if s.IntN(3) == 0 {
			honor := corev1.NodeInclusionPolicyHonor
			c.NodeTaintsPolicy = &honor
		}
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && s.IntN(3) == 0 {
			n := int32(3)
			c.MinDomains = &n
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
}

func (s *story) term() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: s.topology(), LabelSelector: s.selector()}
	switch s.IntN(4) {
	case 0:
		t.Namespaces = []string{"other"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(s, "a", "b")}}
	}
	return t
}

func (s *story) wishCompany(pod *corev1.Pod) {
	a := &corev1.PodAffinity{}
	for range 1 + s.IntN(2) {
		if s.IntN(2) == 0 {
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, s.term())
		} else {
			a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: pick[int32](s, 1, 50), PodAffinityTerm: s.term()})
		}
	}
	affinity(pod).PodAffinity = a
}

func (s *story) wishDistance(pod *corev1.Pod) {
	a := &corev1.PodAntiAffinity{}
	if s.IntN(2) == 0 {
		a.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{s.term()}
	} else {
		a.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: s.term()}}
	}
	affinity(pod).PodAntiAffinity = a
}
