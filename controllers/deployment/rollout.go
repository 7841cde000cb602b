package deployment

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// A rollout is a deployment and its replica sets at one moment: the one of the
// deployment's present template, if it exists, and the others from old to young.
// Its methods say what should be done and change nothing.
type rollout struct {
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet
	now     time.Time
}

// A resize is a replica set and the size that it should get.
type resize struct {
	set *appsv1.ReplicaSet
	to  int32
}

func newRollout(d *appsv1.Deployment, sets []*appsv1.ReplicaSet, now time.Time) *rollout {
	r := &rollout{d: d, now: now}
	sets = slices.Clone(sets)
	slices.SortFunc(sets, byAge)
	for _, set := range sets {
		// Where a bug or a user made two of one template, the oldest is it.
		if r.current == nil && sameTemplate(&set.Spec.Template, &d.Spec.Template) {
			r.current = set
		} else {
			r.old = append(r.old, set)
		}
	}
	return r
}

// all are the replica sets, the current one last.
func (r *rollout) all() []*appsv1.ReplicaSet {
	if r.current == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.current)
}

// revision is the number that the present template has or will get.
func (r *rollout) revision() int64 { return latestRevision(r.old) + 1 }

func (r *rollout) recreates() bool {
	return r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
}

// replaced says that the replica set's new version takes the old one's place.
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

// firstSize is the size that the present template's replica set may have now:
// under a rolling update, what fits under the surge; else everything.
func (r *rollout) firstSize() int32 {
	want := replicas(r.d)
	if r.recreates() {
		return want
	}
	room := want + bounds(r.d).surge - sum(r.all(), held)
	if room <= 0 {
		return size(r.current)
	}
	return size(r.current) + max(0, min(room, want-size(r.current)))
}

// grow is the next size of the current replica set under a rolling update.
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

// shrink takes from the old replica sets what may go under a rolling update:
// first what is not available anyway, oldest first, then what is available and
// not needed for the minimum.
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
	to := make([]int32, len(r.old))
	var cleaned int32
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

// drain empties every old replica set.
func (r *rollout) drain() []resize {
	return changes(r.old, make([]int32, len(r.old)))
}

func changes(sets []*appsv1.ReplicaSet, to []int32) []resize {
	var out []resize
	for i, set := range sets {
		if size(set) != to[i] {
			out = append(out, resize{set, to[i]})
		}
	}
	return out
}
