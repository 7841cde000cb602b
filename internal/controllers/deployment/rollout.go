package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// rollout is a Deployment with its ReplicaSets: the one of the current template, if it exists, and the others from old
// to young. Its methods compute what to do and change nothing.
type rollout struct {
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet
	now     time.Time
}

// resize is a ReplicaSet with its new size.
type resize struct {
	set *appsv1.ReplicaSet
	to  int
}

func newRollout(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, now time.Time) *rollout {
	r := &rollout{d: d, now: now}
	sets = slices.Clone(sets)
	slices.SortFunc(sets, byAge)
	for _, set := range sets {
		// If there are two for one template, the oldest one counts.
		if r.current == nil && sameTemplate(&set.Spec.Template, &d.Spec.Template) {
			r.current = set
		} else {
			r.old = append(r.old, set)
		}
	}
	return r
}

// all returns all ReplicaSets, the current one last.
func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.current == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.current)
}

// revision returns the revision that the current template has or will get.
func (r *rollout) revision() int64 { return latestRevision(r.old) + 1 }

func (r *rollout) recreates() bool {
	return r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// replaced replaces a ReplicaSet by its new version.
func (r *rollout) replaced(set *appsv1.ReplicaSet) {
	if r.current != nil && r.current.UID == set.UID {
		r.current = set
		return
	}
	for i := range r.old {
		if r.old[i].UID == set.UID {
			r.old[i] = set
		}
	}
}

// firstSize returns the size with which the current ReplicaSet is created: during a rolling update what maxSurge
// allows, otherwise everything.
func (r *rollout) firstSize() int {
	want := replicas(r.d)
	if r.recreates() {
		return want
	}
	if slices.ContainsFunc(r.old, unobserved) {
		return size(r.current)
	}
	room := want + bounds(r.d).surge - sum(r.all(), held)
	if room <= 0 {
		return size(r.current)
	}
	return size(r.current) + max(0, min(room, want-size(r.current)))
}

// grow returns the next size of the current ReplicaSet during a rolling update.
func (r *rollout) grow() []resize {
	have, want := size(r.current), replicas(r.d)
	switch {
	case have == want:
		return nil
	case have > want:
		return []resize{{r.current, want}}
	}
	if to := r.firstSize(); to != have {
		return []resize{{r.current, to}}
	}
	return nil
}

// shrink reduces the old ReplicaSets during a rolling update: first pods that are not available, oldest first, then
// available pods beyond the minimum.
func (r *rollout) shrink() []resize {
	if sum(r.old, size) == 0 {
		return nil
	}
	least := replicas(r.d) - bounds(r.d).unavailable
	pending := size(r.current) - lasting(r.current)
	spare := sum(r.all(), size) - least - pending
	if spare <= 0 {
		return nil
	}
	to := make([]int, len(r.old))
	cleaned := 0
	for i, set := range r.old {
		to[i] = size(set)
		n := max(0, min(spare-cleaned, size(set)-lasting(set)))
		to[i] -= n
		cleaned += n
	}
	surplus := max(0, sum(r.all(), lasting)-least)
	for i := range r.old {
		n := min(surplus, to[i])
		to[i] -= n
		surplus -= n
	}
	return changes(r.old, to)
}

// drain reduces every old ReplicaSet to zero.
func (r *rollout) drain() []resize {
	return changes(r.old, make([]int, len(r.old)))
}

func changes(sets []*appsv1.ReplicaSet, to []int) []resize {
	var out []resize
	for i, set := range sets {
		if size(set) != to[i] {
			out = append(out, resize{set, to[i]})
		}
	}
	return out
}
