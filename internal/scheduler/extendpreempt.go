package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/scheduler/extender"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/internal/preemption"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// askedToPreempt returns the extenders that choose victims for a pod, and the pod as it is in the API.
func (c *chooser) askedToPreempt(pod *cluster.Pod) ([]*extender.Extender, *corev1.Pod) {
	var asked []*extender.Extender
	object, ok := c.options.Watched.Pods.Lookup(informer.Key(pod.Key))
	for _, e := range c.options.Extenders {
		if ok && e.Preempts() && e.Interested(object) {
			asked = append(asked, e)
		}
	}
	return asked, object
}

// errNoCandidate is the message when extenders have left no node.
var errNoCandidate = errors.New("no candidate node for preemption")

// agree lets extenders choose among candidates. No lock is held while they are called, so pods and nodes that were
// deleted meanwhile are removed afterwards.
func (c *chooser) agree(asked []*extender.Extender, object *corev1.Pod, found []preemption.Candidate) (*preemption.Candidate, error) {
	victims := make(map[string]extender.Victims, len(found))
	pods := make(map[string]map[string]*corev1.Pod, len(found)) // of a node, by UID
	for i := range found {
		at := &found[i]
		pods[at.Node.Name] = make(map[string]*corev1.Pod)
		for _, p := range at.Node.Below(math.MaxInt32) {
			if o, ok := c.options.Watched.Pods.Lookup(informer.Key(p.Key)); ok {
				pods[at.Node.Name][string(p.UID)] = o
			}
		}
		v := extender.Victims{Violations: int64(at.Violations)}
		for _, p := range at.Victims {
			if o := pods[at.Node.Name][string(p.UID)]; o != nil {
				v.Pods = append(v.Pods, o)
			}
		}
		victims[at.Node.Name] = v
	}
	c.mu.Unlock()
	err := negotiate(c.extenderContext, asked, object, victims, pods)
	c.lock()
	c.released = true
	if err != nil {
		return nil, err
	}
	var left []preemption.Candidate
	for i := range found {
		at := preemption.Candidate{Node: found[i].Node}
		v, stays := victims[at.Node.Name]
		if now, ok := c.state.NodeNamed(at.Node.Name); !stays || !ok || now != at.Node || !at.Node.Present {
			continue
		}
		at.Violations = int(v.Violations)
		for _, o := range v.Pods {
			if p, node, _, ok := c.state.Placed(cluster.Key{Namespace: o.Namespace, Name: o.Name}); ok && p.UID == o.UID && node == at.Node {
				at.Victims = append(at.Victims, p)
			}
		}
		left = append(left, at)
	}
	return preemption.Best(left), nil
}

// negotiate asks one extender after the other, each about the remaining nodes.
func negotiate(ctx context.Context, asked []*extender.Extender, object *corev1.Pod, victims map[string]extender.Victims, pods map[string]map[string]*corev1.Pod) error {
	for _, e := range asked {
		if len(victims) == 0 {
			return nil
		}
		agreed, err := e.Preempt(ctx, object, victims)
		if err != nil {
			if e.Ignorable() {
				continue
			}
			return err
		}
		for node := range agreed {
			if _, asked := victims[node]; !asked && !e.Ignorable() {
				return fmt.Errorf("extender %q claims a node %q for preemption that it was not asked about", e.Name(), node)
			}
		}
		for node := range victims {
			a, stays := agreed[node]
			switch {
			case !stays:
				delete(victims, node)
				continue
			case len(a.UIDs) == 0 && e.Ignorable():
				delete(victims, node)
				continue
			case len(a.UIDs) == 0:
				return fmt.Errorf("expected at least one victim pod on node %q", node)
			}
			v := extender.Victims{Violations: a.Violations}
			for _, uid := range a.UIDs {
				o := pods[node][string(uid)]
				if o == nil {
					return fmt.Errorf("extender %q claims to preempt a pod with the UID %q, which is not on node %q", e.Name(), uid, node)
				}
				v.Pods = append(v.Pods, o)
			}
			victims[node] = v
		}
	}
	return nil
}

// searchAgreed finds the best node for a preemption among those to which the extenders agree.
func (c *chooser) searchAgreed(asked []*extender.Extender, object *corev1.Pod, search *preemption.Search, nodes []*cluster.Node) (*preemption.Candidate, []*plugin.Verdict, error) {
	found, verdicts := search.All(nodes)
	if len(found) == 0 {
		return nil, verdicts, nil
	}
	best, err := c.agree(asked, object, found)
	if best == nil && err == nil {
		err = errNoCandidate
	}
	return best, nil, err
}
