package statefulset

import (
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// state is a StatefulSet with its pods, for one sync.
type state struct {
	*controller
	set       *appsv1.StatefulSet
	key       loop.Key
	owner     history.Owner
	now       time.Time
	revisions []*appsv1.ControllerRevision
	current   *appsv1.ControllerRevision // the revision before the update
	update    *appsv1.ControllerRevision // the revision of the update

	slots     []slot // the ordinals that have a pod and should, and the lowest ones without, up to burst of them; in order
	missing   int    // how many ordinals should have a pod and have none
	condemned []slot // pods whose ordinal is too high or too low, the highest first
	after     time.Duration
}

// slot is an ordinal with its pod, which may be missing.
type slot struct {
	number int
	pod    *podview.Pod
}

// ordinal returns the ordinal in a pod's name. The first ordinal and the number of replicas have 32 bits each, so their
// sum has more.
func ordinal(set *appsv1.StatefulSet, pod string) (int, bool) {
	text, ok := strings.CutPrefix(pod, set.Name+"-")
	n, err := strconv.ParseInt(text, 10, 64)
	return int(n), ok && err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

func podName(set *appsv1.StatefulSet, number int) string {
	return set.Name + "-" + strconv.Itoa(number)
}

// first returns the lowest ordinal.
func (s *state) first() int {
	if o := s.set.Spec.Ordinals; o != nil {
		return int(o.Start)
	}
	return 0
}

func (s *state) replicas() int {
	if s.set.Spec.Replicas == nil {
		return 1
	}
	return int(*s.set.Spec.Replicas)
}

// within reports whether an ordinal should have a pod.
func (s *state) within(number int) bool {
	return number >= s.first() && number < s.first()+s.replicas()
}

// burst is the number of missing pods that one sync knows, and so the number that it makes at most: what a sync needs
// must not grow with the number of replicas that somebody asks for. The status is written after each burst.
const burst = 500

// arrange assigns pods to their ordinals.
func (s *state) arrange(pods []*podview.Pod) {
	has := make(map[int]bool, len(pods))
	for _, p := range pods {
		number, ok := ordinal(s.set, p.Name)
		switch {
		case !ok:
		case s.within(number):
			s.slots = append(s.slots, slot{number, p})
			has[number] = true
		default:
			s.condemned = append(s.condemned, slot{number, p})
		}
	}
	s.missing = s.replicas() - len(has)
	for number, left := s.first(), min(s.missing, burst); left > 0; number++ {
		if !has[number] {
			s.slots = append(s.slots, slot{number: number})
			left--
		}
	}
	slices.SortFunc(s.slots, func(a, b slot) int { return a.number - b.number })
	slices.SortFunc(s.condemned, func(a, b slot) int { return b.number - a.number })
}

func revisionOf(p *podview.Pod) string { return p.Labels[appsv1.StatefulSetRevisionLabel] }

// running reports whether a pod runs and is ready, even if it is being deleted.
func running(p *podview.Pod) bool { return p != nil && p.Phase == corev1.PodRunning && p.Ready }

// healthy reports whether a pod runs, is ready and is not being deleted.
func healthy(p *podview.Pod) bool { return running(p) && p.DeletionTimestamp == nil }

// available reports whether a pod has been ready long enough. If it only needs more time, it requests a sync then.
func (s *state) available(p *podview.Pod) bool {
	minReady := time.Duration(s.set.Spec.MinReadySeconds) * time.Second
	if !running(p) {
		return false
	}
	if p.Available(minReady, s.now) {
		return true
	}
	s.again(p.ReadyChanged.Add(minReady).Sub(s.now))
	return false
}

// again requests another sync after some time.
func (s *state) again(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.after == 0 || d < s.after {
		s.after = d
	}
}

// ordered reports whether pods wait for those before them.
func (s *state) ordered() bool { return s.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement }

// partition returns how many of the lowest ordinals keep the current revision.
func (s *state) partition() int {
	if r := s.set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		return int(*r.Partition)
	}
	return 0
}

func (s *state) rolls() bool {
	return s.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType
}

// revisionFor returns the revision for a new pod of an ordinal.
func (s *state) revisionFor(number int) *appsv1.ControllerRevision {
	if s.rolls() && number < s.first()+s.partition() {
		return s.current
	}
	return s.update
}

func (s *state) limit() int {
	if s.set.Spec.RevisionHistoryLimit == nil {
		return 10
	}
	return int(*s.set.Spec.RevisionHistoryLimit)
}

// inUse reports whether pods of a revision exist or will be made.
func (s *state) inUse(r *appsv1.ControllerRevision) bool {
	of := func(at slot) bool { return at.pod != nil && revisionOf(at.pod) == r.Name }
	return r.Name == s.current.Name || r.Name == s.update.Name || slices.ContainsFunc(s.slots, of) || slices.ContainsFunc(s.condemned, of)
}
