package daemonset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// state is a DaemonSet with its pods and the nodes, for one sync.
type state struct {
	ds        *appsv1.DaemonSet
	key       loop.Key
	owner     history.Owner
	now       time.Time
	hash      string // of the current revision
	current   *appsv1.ControllerRevision
	revisions []*appsv1.ControllerRevision
	fit       fit
	minReady  time.Duration

	nodes   []post
	strays  []*podview.Pod  // pods that wait for nodes that are gone
	live    map[string]bool // the hashes of the pods' revisions
	desired int             // the number of nodes that should have a pod
	after   time.Duration   // when to sync again even if nothing changes; 0 means never
}

// post is a node with the DaemonSet's pods there, the oldest first.
type post struct {
	node      string
	run, stay bool
	pods      []*podview.Pod
}

// arrange assigns the pods to their nodes.
func (s *state) arrange(nodes *informer.Shared[*nodeView], pods []*podview.Pod) {
	byNode := make(map[string][]*podview.Pod, len(pods))
	s.live = map[string]bool{}
	for _, p := range pods {
		node := cmp.Or(p.Node, p.Wanted)
		byNode[node] = append(byNode[node], p)
		s.live[p.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	for p := range nodes.List() {
		at := post{node: p.Name, pods: byNode[p.Name]}
		at.run, at.stay = s.fit.on(p)
		slices.SortFunc(at.pods, olderFirst)
		if at.run {
			s.desired++
		}
		s.nodes = append(s.nodes, at)
		delete(byNode, p.Name)
	}
	slices.SortFunc(s.nodes, func(a, b post) int { return cmp.Compare(a.node, b.node) })
	for _, lost := range byNode {
		for _, p := range lost {
			if p.Node == "" && p.Wanted != "" && p.DeletionTimestamp == nil {
				s.strays = append(s.strays, p)
			}
		}
	}
}

// olderFirst sorts scheduled pods first, then by age.
func olderFirst(a, b *podview.Pod) int {
	if (a.Node == "") != (b.Node == "") {
		if a.Node != "" {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// updated reports whether a pod was made from the current template.
func (s *state) updated(p *podview.Pod) bool {
	if p.Labels[appsv1.ControllerRevisionHashLabelKey] == s.hash {
		return true
	}
	generation := s.generation()
	return generation != "" && p.Labels["pod-template-generation"] == generation
}

func (s *state) available(p *podview.Pod) bool { return p.Available(s.minReady, s.now) }

// again requests another sync after some time.
func (s *state) again(d time.Duration) {
	d = max(d, time.Millisecond)
	if s.after == 0 || d < s.after {
		s.after = d
	}
}

// bounds returns how many surplus and unavailable pods a rolling update may cause.
func (s *state) bounds() (surge, unavailable int) {
	r := s.ds.Spec.UpdateStrategy.RollingUpdate
	if s.ds.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || r == nil {
		return 0, 0
	}
	surge, unavailable = part(r.MaxSurge, s.desired), part(r.MaxUnavailable, s.desired)
	if s.desired > 0 && surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

func part(n *intstr.IntOrString, of int) int {
	if n == nil {
		return 0
	}
	value, err := intstr.GetScaledValueFromIntOrPercent(n, of, true)
	if err != nil {
		return 0
	}
	return value
}

func (s *state) limit() int {
	if s.ds.Spec.RevisionHistoryLimit == nil {
		return 10
	}
	return int(*s.ds.Spec.RevisionHistoryLimit)
}

// inUse reports whether pods of a revision exist or will be made.
func (s *state) inUse(r *appsv1.ControllerRevision) bool {
	return r.UID == s.current.UID || s.live[r.Labels[appsv1.ControllerRevisionHashLabelKey]]
}
