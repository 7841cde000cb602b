package daemonset

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// burst is how many pods are created, and how many deleted, in one sync.
const burst = 250

// plan has the changes of one sync.
type plan struct {
	create []string // nodes without a pod
	remove []*podview.Pod
}

// upkeep plans what does not depend on a rollout: one pod on each suitable node, none elsewhere.
func (s *state) upkeep(d *controller) plan {
	p := plan{remove: s.strays}
	for i := range s.nodes {
		at := &s.nodes[i]
		switch {
		case at.run && len(at.pods) == 0:
			p.create = append(p.create, at.node)
		case at.stay:
			s.tidy(d, at, &p)
		default:
			for _, pod := range at.pods {
				if pod.DeletionTimestamp == nil {
					p.remove = append(p.remove, pod)
				}
			}
		}
	}
	return p
}

// tidy deletes finished and surplus pods of a node.
func (s *state) tidy(d *controller, at *post, p *plan) {
	var working []*podview.Pod
	for _, pod := range at.pods {
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Phase == corev1.PodFailed:
			if d.mayReplace(s, at.node) {
				d.recorder.Eventf(s.ds, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, at.node)
				p.remove = append(p.remove, pod)
			}
		case pod.Phase == corev1.PodSucceeded:
			d.recorder.Eventf(s.ds, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, at.node)
			p.remove = append(p.remove, pod)
		default:
			working = append(working, pod)
		}
	}
	if surge, _ := s.bounds(); surge > 0 {
		s.tidyPair(working, p)
	} else if len(working) > 1 {
		p.remove = append(p.remove, working[1:]...)
	}
}

// tidyPair keeps one pod of the current template and one of an older one, or only one of them if the other is not
// needed any more.
func (s *state) tidyPair(working []*podview.Pod, p *plan) {
	var fresh, old *podview.Pod
	for _, pod := range working {
		switch {
		case s.updated(pod) && fresh == nil:
			fresh = pod
		case !s.updated(pod) && old == nil:
			old = pod
		default:
			p.remove = append(p.remove, pod)
		}
	}
	if fresh != nil && old != nil && (!old.Ready || s.available(fresh)) {
		p.remove = append(p.remove, old)
	}
}

// mayReplace reports whether the delay for replacing a failed pod on a node has passed.
func (c *controller) mayReplace(s *state, node string) bool {
	id := fmt.Sprintf("%s/%d/%s", s.ds.UID, s.ds.Status.ObservedGeneration, node)
	if c.failed.IsInBackOffSinceUpdate(id, c.failed.Clock.Now()) {
		s.again(c.failed.Get(id))
		return false
	}
	c.failed.Next(id, c.failed.Clock.Now())
	return true
}

// carryOut executes a plan, and reports whether there was anything to do.
func (c *controller) carryOut(ctx context.Context, s *state, p plan) (changed bool, err error) {
	if len(p.create) > burst || len(p.remove) > burst {
		s.again(0) // as soon as the cache shows these pods
	}
	p.create, p.remove = p.create[:min(len(p.create), burst)], p.remove[:min(len(p.remove), burst)]
	_, err = loop.SlowStart(ctx, len(p.create), func(ctx context.Context, i int) error {
		return c.upkeep.Create(ctx, s.ds, s.podFor(p.create[i]))
	})
	if failure := c.upkeep.Delete(ctx, s.ds, p.remove); err == nil {
		err = failure
	}
	return len(p.create)+len(p.remove) > 0, err
}
