package placement_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/randomly"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/oracle"
	"github.com/millrace/millrace/internal/scheduler/placement"
)

var stepsFlag = flag.Int("steps", 1000, "steps of the random tests")

// TestSharedResultsEqualLookingAtEveryNode places pods of few kinds, so that all shared results are used again and
// again, in a cluster that always changes, and compares each decision with the oracle.
func TestSharedResultsEqualLookingAtEveryNode(t *testing.T) {
	seed := randomly.Seed(t)
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

// story is a random sequence of changes, which the state and the oracle both receive.
type story struct {
	*testing.T
	*rand.Rand
	*oracle.Cluster
	state     cluster.State
	interner  cluster.Interner
	engine    *placement.Engine
	dice      oracle.Dice
	templates []*corev1.Pod
	steps     int

	placedCount, refusedCount int
}

func newStory(t *testing.T, seed uint64) *story {
	s := &story{T: t, Rand: rand.New(rand.NewPCG(seed, 1))}
	s.Cluster = oracle.New()
	s.dice = oracle.Dice{Rand: s.Rand}
	s.engine = placement.New(&s.state, defaultRules(), s.Rand)
	for range 12 {
		s.templates = append(s.templates, s.dice.Pod())
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
		s.templates[s.IntN(len(s.templates))] = s.dice.Pod()
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
	if len(s.Nodes) == 0 {
		if failure == nil || failure.Error() != "no nodes available to schedule pods" {
			s.Errorf("without nodes: %v %v", node, failure)
		}
		return
	}
	refusals, totals := s.Evaluate(pod)
	if failure != nil {
		s.refusedCount++
		if len(totals) > 0 {
			s.Errorf("%s was refused (%s), the oracle has %v", pod.Name, failure, totals)
		} else if want := oracle.Message(refusals); failure.Error() != want {
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
	s.Pods[pod.Name] = pod
}

func (s *story) checkBest(pod *corev1.Pod, node string, refusals map[string][]string, totals map[string]int64) {
	total, ok := totals[node]
	if !ok {
		s.Errorf("%s was placed on %s, which refuses it: %v", pod.Name, node, refusals[node])
		return
	}
	for name, other := range totals {
		if other > total || other == total && len(s.PodsOn(name)) < len(s.PodsOn(node)) {
			s.Errorf("%s was placed on %s with %d and %d pods, better is %s with %d and %d pods",
				pod.Name, node, total, len(s.PodsOn(node)), name, other, len(s.PodsOn(name)))
		}
	}
}

func (s *story) anyPod() (*corev1.Pod, bool) {
	names := slices.Sorted(maps.Keys(s.Pods))
	if len(names) == 0 {
		return nil, false
	}
	return s.Pods[oracle.Pick(s.dice, names...)], true
}

func (s *story) removePod() {
	if pod, ok := s.anyPod(); ok {
		delete(s.Pods, pod.Name)
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
	if names := s.NodeNames(); len(names) > 0 {
		name := oracle.Pick(s.dice, names...)
		delete(s.Nodes, name)
		s.state.RemoveNode(name)
	}
}

func (s *story) setNamespace() {
	name, set := oracle.Pick(s.dice, "default", "other"), map[string]string{"team": oracle.Pick(s.dice, "a", "b")}
	s.Namespaces[name] = set
	s.state.SetNamespace(name, set)
}

func (s *story) setService() {
	name := oracle.Pick(s.dice, "one", "two")
	if s.IntN(2) == 0 {
		delete(s.Services, name)
		s.state.SetService("default", name, nil)
		return
	}
	set := map[string]string{"app": oracle.Pick(s.dice, "x", "y", "z")}
	if name == "two" {
		set = map[string]string{"tier": oracle.Pick(s.dice, "1", "2")}
	}
	s.Services[name] = set
	s.state.SetService("default", name, labels.SelectorFromSet(set))
}

func (s *story) setNode() {
	node := s.dice.Node()
	s.Nodes[node.Name] = node
	s.state.SetNode(node)
}
