package scheduler

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/scheduler/extender"
	"github.com/millrace/millrace/internal/scheduler/internal/backlog"
	"github.com/millrace/millrace/internal/scheduler/internal/cluster"
	"github.com/millrace/millrace/internal/scheduler/placement"
	"github.com/millrace/millrace/internal/scheduler/plugin"
)

// errGone reports that a pod must not be placed any more.
var errGone = errors.New("the pod has gone")

// extendersOf returns the extenders that are interested in a pod, and the pod as it is in the API.
func (c *chooser) extendersOf(pod *cluster.Pod) ([]*extender.Extender, *corev1.Pod) {
	if len(c.options.Extenders) == 0 {
		return nil, nil
	}
	object, ok := c.options.Watched.Pods.Lookup(informer.Key(pod.Key))
	if !ok {
		return nil, nil
	}
	var interested []*extender.Extender
	for _, e := range c.options.Extenders {
		if e.Filters() && e.Interested(object) {
			interested = append(interested, e)
		}
	}
	return interested, object
}

// binderOf returns the extender that binds a pod; nil if the scheduler does.
func (b *binder) binderOf(pod *cluster.Pod) (*extender.Extender, *corev1.Pod) {
	for _, e := range b.options.Extenders {
		if !e.Binds() {
			continue
		}
		if object, ok := b.options.Watched.Pods.Lookup(informer.Key(pod.Key)); ok && e.Interested(object) {
			return e, object
		}
	}
	return nil, nil
}

// placeExtended finds the node for a pod with extenders. No lock is held while they are called, so the node is checked
// again afterwards.
func (c *chooser) placeExtended(p *profile, entry *backlog.Entry, x placement.Extra, asked []*extender.Extender, object *corev1.Pod) (*cluster.Node, *placement.Failure, error) {
	pod := entry.Pod
	x = c.withNominated(p, pod, x)
	candidates, verdicts := p.engine.Candidates(pod.Shape, x)
	if len(candidates) == 0 {
		return nil, p.engine.Explain(verdicts), nil
	}
	var nodes []*corev1.Node
	for i := range candidates {
		if node, ok := c.options.Watched.Nodes.Lookup(informer.Key{Name: candidates[i].Node.Name}); ok {
			nodes = append(nodes, node)
		}
	}
	c.mu.Unlock()
	said, err := askExtenders(c.extenderContext, asked, object, nodes)
	c.lock()
	c.released = true
	switch {
	case err != nil:
		return nil, nil, err
	case !c.backlog.Holds(entry) || entry.Pod.UID != pod.UID:
		return nil, nil, errGone
	}
	var best *placement.Candidate
	trial := p.engine.Try(pod.Shape)
	for i := range candidates {
		at := &candidates[i]
		if !said.left[at.Node.Name] || !at.Node.Present {
			continue
		}
		if best != nil && !at.Better(*best, said.scores[at.Node.Name], said.scores[best.Node.Name]) {
			continue
		}
		if trial.Verdict(at.Node) == nil && x.Verdict(at.Node) == nil {
			best = at
		}
	}
	if best == nil {
		return nil, p.engine.Explain(append(verdicts, said.verdicts...)), nil
	}
	return best.Node, nil, nil
}

// extenderResult is the combined result of all extenders.
type extenderResult struct {
	left     map[string]bool
	scores   map[string]int64
	verdicts []*plugin.Verdict
}

// extenderScale makes extenders' scores up to 10 comparable with the scores of rules.
const extenderScale = 10

// askExtenders asks one extender after the other to filter the remaining nodes, and then all to score them.
func askExtenders(ctx context.Context, asked []*extender.Extender, pod *corev1.Pod, nodes []*corev1.Node) (extenderResult, error) {
	said := extenderResult{left: make(map[string]bool), scores: make(map[string]int64)}
	for _, e := range asked {
		answer, err := e.Filter(ctx, pod, nodes)
		if err != nil {
			if e.Ignorable() {
				continue
			}
			return said, err
		}
		said.refused(e, answer)
		stays := make(map[string]bool)
		for _, name := range answer.Nodes {
			stays[name] = true
		}
		var left []*corev1.Node
		for _, node := range nodes {
			if stays[node.Name] {
				left = append(left, node)
			}
		}
		if nodes = left; len(nodes) == 0 {
			break
		}
	}
	for _, node := range nodes {
		said.left[node.Name] = true
	}
	for _, e := range asked {
		scores, err := e.Prioritize(ctx, pod, nodes)
		if err != nil {
			continue // as in Kubernetes, the extender's scores are ignored
		}
		for name, score := range scores {
			said.scores[name] += score * extenderScale
		}
	}
	return said, nil
}

// refused records why nodes are refused.
func (er *extenderResult) refused(e *extender.Extender, answer extender.Answer) {
	for name, reason := range answer.Unresolvable {
		er.verdicts = append(er.verdicts, &plugin.Verdict{Plugin: e.Name(), Reasons: []string{reason}, Lasting: true})
		delete(answer.Refused, name)
	}
	for _, reason := range answer.Refused {
		er.verdicts = append(er.verdicts, &plugin.Verdict{Plugin: e.Name(), Reasons: []string{reason}})
	}
}

// bindExtended lets an extender bind a pod. After an error the pod is read: the extender may have bound it, and the
// answer may have been lost.
func (b *binder) bindExtended(ctx context.Context, e *extender.Extender, object *corev1.Pod, pod *cluster.Pod, node string) (outcome, error) {
	err := e.Bind(ctx, object, node)
	if err == nil {
		return bound, nil
	}
	return b.resolveConflict(ctx, pod, node, fmt.Errorf("extender %s: %w", e.Name(), err))
}
