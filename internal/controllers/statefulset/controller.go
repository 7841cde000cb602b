package statefulset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "statefulset-controller"

// Entry is this loop among the others, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop.
type Options struct {
	// Count, if set, is called with a function that returns how many pods are unavailable. It is for scrapes.
	Count func(now func() iter.Seq[Unavailable])
}

// Unavailable says how many pods of a StatefulSet are unavailable, and how many may be during a rolling update.
type Unavailable struct {
	Key       loop.Key
	Policy    appsv1.PodManagementPolicyType
	Pods, Max int
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	return loop.Entry{Name: name, Aliases: []string{"statefulset"}, New: o.new}
}

var kind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

type controller struct {
	kube     kubernetes.Interface
	recorder loop.Recorder
	now      func() time.Time
	sets     *informer.Shared[*appsv1.StatefulSet]
	pods     *informer.Shared[*podview.Pod]
	claims   *informer.Shared[*corev1.PersistentVolumeClaim]
	history  history.History
}

func (o Options) new(c *loop.Clients) (loop.Runner, error) {
	k := &controller{
		kube: c.Kube, recorder: c.Recorder, now: c.Now,
		sets:   loop.Informer(c, informer.For(c.Kube.AppsV1().StatefulSets(""))),
		pods:   podview.Informer(c),
		claims: loop.Informer(c, informer.For(c.Kube.CoreV1().PersistentVolumeClaims(""))),
	}
	k.history = history.History{
		Kube: c.Kube, Cache: history.Informer(c), Kind: kind, HashLabel: "controller.kubernetes.io/hash",
		Live: k.live,
	}
	if o.Count != nil {
		o.Count(k.unavailable)
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 5, Sync: k.sync,
		Watches: []loop.Watch{
			loop.Self(k.sets),
			loop.Owned(k.pods, kind),
			loop.Owned(k.history.Cache, kind),
			loop.Changes(k.pods, k.matchingOwners),
			loop.Reads(k.claims),
		},
	}, nil
}

// unavailable ranges over the StatefulSets.
func (c *controller) unavailable() iter.Seq[Unavailable] {
	return func(yield func(Unavailable) bool) {
		for set := range c.sets.List() {
			s := &state{controller: c, set: set}
			missing := max(0, s.replicas()-int(set.Status.AvailableReplicas))
			if !yield(Unavailable{informer.KeyOf(set), set.Spec.PodManagementPolicy, missing, s.maxUnavailable()}) {
				return
			}
		}
	}
}

func (c *controller) live(ctx context.Context, namespace, name string) (metav1.Object, error) {
	return c.kube.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
}

// matchingOwners returns the StatefulSets that might adopt a pod without owner.
func (c *controller) matchingOwners(before, after *podview.Pod) []loop.Key {
	if after == nil || !owned.Orphan(after) || before != nil && owned.Orphan(before) && maps.Equal(before.Labels, after.Labels) {
		return nil
	}
	return owned.MatchingOwners(c.sets, after, func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector })
}

// sync handles one StatefulSet.
func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	set, ok := c.sets.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return loop.Result{}, loop.Terminal(fmt.Errorf("selector of stateful set %s: %w", key, err))
	}
	s, err := c.look(ctx, key, set, selector)
	if errors.Is(err, history.ErrCollision) {
		return loop.Result{}, c.collided(ctx, key, set)
	}
	if err != nil {
		return loop.Result{}, err
	}
	failure := c.step(ctx, s)
	if failure == nil && set.DeletionTimestamp == nil {
		failure = c.history.Truncate(ctx, s.owner, s.revisions, s.limit(), s.inUse)
	}
	return loop.Result{After: s.after}, errors.Join(failure, c.writeStatus(ctx, s))
}

// look gathers the state for one sync.
func (c *controller) look(ctx context.Context, key loop.Key, set *appsv1.StatefulSet, selector labels.Selector) (*state, error) {
	s := &state{
		controller: c, set: set, key: key, now: c.now(),
		owner: history.Owner{Object: set, Key: key, Template: &set.Spec.Template, Collisions: set.Status.CollisionCount},
	}
	if err := s.findRevisions(ctx, selector); err != nil {
		return nil, err
	}
	pods, err := c.claim(ctx, key, set, selector)
	if err != nil {
		return nil, err
	}
	s.arrange(pods)
	return s, nil
}

// findRevisions adopts, releases and creates revisions. A StatefulSet that is being deleted keeps those of its status:
// the garbage collector is orphaning or deleting them, and a new one would be left over, or be deleted in the place of
// an orphan.
func (s *state) findRevisions(ctx context.Context, selector labels.Selector) (err error) {
	if s.set.DeletionTimestamp != nil {
		s.current, s.update = &appsv1.ControllerRevision{}, &appsv1.ControllerRevision{}
		s.current.Name, s.update.Name = s.set.Status.CurrentRevision, s.set.Status.UpdateRevision
		return nil
	}
	if s.revisions, err = s.history.Claim(ctx, s.owner, selector); err != nil {
		return err
	}
	if s.update, s.revisions, err = s.history.Current(ctx, s.owner, s.revisions); err != nil {
		return err
	}
	s.current = s.update
	for _, r := range s.revisions {
		if r.Name == s.set.Status.CurrentRevision {
			s.current = r
		}
	}
	return nil
}

// claim adopts and releases pods, and returns those of the StatefulSet. Only pods with one of its names belong to it.
func (c *controller) claim(ctx context.Context, key loop.Key, set *appsv1.StatefulSet, selector labels.Selector) ([]*podview.Pod, error) {
	claims := loop.Claims[*podview.Pod]{
		Owner: set, Kind: kind, Selector: selector,
		Adoptable: func(p *podview.Pod) bool { _, ok := ordinal(set, p.Name); return ok },
		Live: func(ctx context.Context) (metav1.Object, error) {
			return c.live(ctx, set.Namespace, set.Name)
		},
		Patch: func(ctx context.Context, pod *podview.Pod, patch []byte) error {
			return c.patchPod(ctx, key, pod, patch)
		},
	}
	return claims.Claim(ctx, owned.Candidates(c.pods, set, selector))
}

func (c *controller) patchPod(ctx context.Context, key loop.Key, pod *podview.Pod, patch []byte) error {
	written, err := c.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("patch pod %s: %w", informer.KeyOf(pod), err)
	}
	loop.Wrote(ctx, c.pods, written.ResourceVersion)
	return nil
}
