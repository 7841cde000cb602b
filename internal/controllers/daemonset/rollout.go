package daemonset

import "github.com/millrace/millrace/internal/controllers/podview"

// rollout replaces pods of older templates, within the limits.
func (s *state) rollout() plan {
	surge, unavailable := s.bounds()
	if surge > 0 {
		return s.surge(surge)
	}
	return s.replace(unavailable)
}

// pair returns the pods of the current and of an older template on a node. ok is false if upkeep must delete some of
// them first.
func (s *state) pair(at *post) (fresh, old *podview.Pod, ok bool) {
	for _, p := range at.pods {
		switch {
		case p.DeletionTimestamp != nil:
		case s.updated(p):
			if fresh != nil {
				return nil, nil, false
			}
			fresh = p
		default:
			if old != nil {
				return nil, nil, false
			}
			old = p
		}
	}
	return fresh, old, true
}

// replace deletes old pods. upkeep makes the new ones.
func (s *state) replace(most int) plan {
	var p plan
	var candidates []*podview.Pod
	missing := 0
	for i := range s.nodes {
		at := &s.nodes[i]
		if len(at.pods) == 0 {
			continue
		}
		fresh, old, ok := s.pair(at)
		switch {
		case !ok, (fresh == nil) == (old == nil):
			missing++ // upkeep handles this node
		case fresh != nil:
			if !s.available(fresh) {
				missing++
			}
		case !s.available(old):
			p.remove = append(p.remove, old) // it was not available anyway
		default:
			candidates = append(candidates, old)
		}
	}
	room := min(max(0, most-missing), len(candidates))
	p.remove = append(p.remove, candidates[:room]...)
	return p
}

// surge makes new pods beside old ones, and deletes the old ones when the new ones are available.
func (s *state) surge(most int) plan {
	var p plan
	var candidates []string
	surplus := 0
	for i := range s.nodes {
		at := &s.nodes[i]
		if len(at.pods) == 0 || !at.run {
			continue
		}
		fresh, old, ok := s.pair(at)
		switch {
		case !ok:
			surplus++
		case old == nil:
		case fresh == nil && !s.available(old):
			p.create = append(p.create, at.node) // the old one was not available anyway
		case fresh == nil:
			candidates = append(candidates, at.node)
		case !s.available(fresh):
			surplus++
		default:
			p.remove = append(p.remove, old)
		}
	}
	room := min(max(0, most-surplus), len(candidates))
	p.create = append(p.create, candidates[:room]...)
	return p
}
