package deployment

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
)

// scaled reports whether the Deployment's size was changed since its ReplicaSets got theirs.
func (r *rollout) scaled() bool {
	for _, set := range r.all() {
		if desired, ok := mark(set, desiredKey); ok && size(set) > 0 && desired != replicas(r.d) {
			return true
		}
	}
	return false
}

// scale distributes a change of the Deployment's size among its ReplicaSets, without continuing the rollout.
func (r *rollout) scale() []resize {
	if only := r.activeOrLatest(); only != nil {
		if desired, ok := mark(only, desiredKey); size(only) == replicas(r.d) && ok && desired == replicas(r.d) {
			return nil
		}
		return []resize{{only, replicas(r.d)}}
	}
	if r.saturated() {
		return r.drain()
	}
	if r.recreates() {
		return r.remark()
	}
	return r.proportional()
}

// activeOrLatest returns the only ReplicaSet that a change of size concerns, or nil if several have pods.
func (r *rollout) activeOrLatest() *appsv1.ReplicaSet {
	var active []*appsv1.ReplicaSet
	for _, set := range r.all() {
		if size(set) > 0 {
			active = append(active, set)
		}
	}
	switch {
	case len(active) == 1:
		return active[0]
	case len(active) > 1:
		return nil
	case r.current != nil:
		return r.current
	case len(r.old) > 0:
		return r.old[len(r.old)-1]
	}
	return nil
}

// remark keeps all sizes and only updates their marks. It is used when the strategy was changed to Recreate during a
// rolling update: the old ReplicaSets are drained next, and the change of size must count as handled.
func (r *rollout) remark() []resize {
	var out []resize
	for _, set := range r.all() {
		if size(set) > 0 {
			out = append(out, resize{set, size(set)})
		}
	}
	return out
}

// saturated reports whether the current ReplicaSet has all pods of the Deployment.
func (r *rollout) saturated() bool {
	if r.current == nil {
		return false
	}
	desired, ok := mark(r.current, desiredKey)
	want := replicas(r.d)
	return ok && desired == want && size(r.current) == want && available(r.current) == want
}

// proportional distributes a change of size among the ReplicaSets with pods, in proportion. The biggest one also gets
// the rounding difference.
func (r *rollout) proportional() []resize {
	active := slices.DeleteFunc(slices.Clone(r.all()), func(set *appsv1.ReplicaSet) bool { return size(set) == 0 })
	allowed := 0
	if replicas(r.d) > 0 {
		allowed = replicas(r.d) + bounds(r.d).surge
	}
	missing := allowed - sum(active, size)
	slices.SortFunc(active, func(a, b *appsv1.ReplicaSet) int {
		age := byAge(a, b) // of two equal ones, the older loses first and the younger gains first
		if missing > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), age)
	})
	to := make([]int, len(active))
	given := 0
	for i, set := range active {
		n := r.share(set, missing, given)
		to[i] = size(set) + n
		given += n
	}
	if len(to) > 0 {
		to[0] = max(0, to[0]+missing-given)
	}
	var out []resize
	for i, set := range active {
		// Also those that keep their size: each must get the new mark.
		out = append(out, resize{set, to[i]})
	}
	return out
}

// share returns the part of one ReplicaSet in a change of size, of which some was distributed before.
func (r *rollout) share(set *appsv1.ReplicaSet, missing, given int) int {
	if missing == 0 || size(set) == 0 {
		return 0
	}
	n := r.fraction(set)
	if missing > 0 {
		return min(n, missing-given)
	}
	return max(n, missing-given)
}

// fraction returns by how much a ReplicaSet must change to keep its fraction of the Deployment's size. Its mark has the
// size before.
func (r *rollout) fraction(set *appsv1.ReplicaSet) int {
	if replicas(r.d) == 0 {
		return -size(set)
	}
	before, ok := mark(set, maximumKey)
	if !ok || before == 0 {
		before = int(r.d.Status.Replicas)
	}
	if before == 0 {
		return 0
	}
	after := replicas(r.d) + bounds(r.d).surge
	return roundHalfUp(float64(size(set))*float64(after)/float64(before)) - size(set)
}
