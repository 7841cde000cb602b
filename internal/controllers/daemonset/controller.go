package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/history"
	"github.com/millrace/millrace/internal/controllers/internal/pace"
	"github.com/millrace/millrace/internal/controllers/internal/upkeep"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

const name = "daemonset-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"daemonset"}, New: New}

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

const (
	firstRetry = time.Second      // delay before a failed pod is replaced
	lastRetry  = 15 * time.Minute // the longest such delay
)

type controller struct {
	kube     kubernetes.Interface
	recorder loop.Recorder
	now      func() time.Time
	sets     *informer.Shared[*appsv1.DaemonSet]
	pods     *informer.Shared[*podview.Pod]
	nodes    *informer.Shared[*nodeView]
	history  history.History
	upkeep   upkeep.Pods
	pace     pace.Pace
	failed   *flowcontrol.Backoff // by node
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	d := &controller{
		kube: c.Kube, recorder: c.Recorder, now: c.Now,
		sets:   loop.Informer(c, informer.For(c.Kube.AppsV1().DaemonSets(""))),
		pods:   podview.Informer(c),
		nodes:  nodeViews(c),
		failed: flowcontrol.NewBackOff(firstRetry, lastRetry),
	}
	d.history = history.History{
		Kube: c.Kube, Cache: history.Informer(c), Kind: kind, HashLabel: appsv1.ControllerRevisionHashLabelKey,
		Live: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			return c.Kube.AppsV1().DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
	d.upkeep = upkeep.Pods{Kube: c.Kube, Recorder: c.Recorder, Cache: d.pods}
	return &loop.Loop{Name: name, Clients: c, Workers: 2, Sync: d.sync, Watches: []loop.Watch{
		loop.Self(d.sets),
		loop.Owned(d.history.Cache, kind),
		loop.Changes(d.nodes, d.nodeChanged).Paced(d.pace.Of),
		loop.Changes(d.pods, d.podChanged).Paced(d.pace.Of),
	}}, nil
}

// sync handles one DaemonSet.
func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	ds, ok := c.sets.Lookup(key)
	if !ok {
		c.pace.Forget(key)
		c.failed.GC()
		return loop.Result{}, nil
	}
	if apiequality.Semantic.DeepEqual(ds.Spec.Selector, &metav1.LabelSelector{}) {
		c.recorder.Eventf(ds, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return loop.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil {
		return loop.Result{}, loop.Terminal(fmt.Errorf("selector of daemon set %s: %w", key, err))
	}
	if ds.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	s, err := c.look(ctx, key, ds, selector)
	if errors.Is(err, history.ErrCollision) {
		return loop.Result{}, c.collided(ctx, key, ds)
	}
	if err != nil {
		return loop.Result{}, err
	}
	return c.step(ctx, s)
}

// look gathers the state for one sync.
func (c *controller) look(ctx context.Context, key loop.Key, ds *appsv1.DaemonSet, selector labels.Selector) (*state, error) {
	owner := history.Owner{Object: ds, Key: key, Template: &ds.Spec.Template, Collisions: ds.Status.CollisionCount}
	revisions, err := c.history.Claim(ctx, owner, selector)
	if err != nil {
		return nil, err
	}
	current, revisions, err := c.history.Current(ctx, owner, revisions)
	if err != nil {
		return nil, err
	}
	pods, err := c.claim(ctx, key, ds, selector)
	if err != nil {
		return nil, err
	}
	c.pace.Set(key, len(pods))
	s := &state{
		ds: ds, key: key, owner: owner, now: c.now(), hash: current.Labels[appsv1.ControllerRevisionHashLabelKey],
		current: current, revisions: revisions, fit: fitOf(ds), minReady: time.Duration(ds.Spec.MinReadySeconds) * time.Second,
	}
	s.arrange(c.nodes, pods)
	return s, nil
}

// step creates missing pods, deletes surplus ones, and continues a rolling update.
func (c *controller) step(ctx context.Context, s *state) (loop.Result, error) {
	changed, failure := c.carryOut(ctx, s, s.upkeep(c))
	if !changed && failure == nil && s.ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		_, failure = c.carryOut(ctx, s, s.rollout())
	}
	if failure == nil {
		failure = c.history.Truncate(ctx, s.owner, s.revisions, s.limit(), s.inUse)
	}
	if err := c.writeStatus(ctx, s); err != nil {
		return loop.Result{}, errors.Join(failure, err)
	}
	return loop.Result{After: s.after}, failure
}

// claim adopts and releases pods, and returns those of the DaemonSet.
func (c *controller) claim(ctx context.Context, key loop.Key, ds *appsv1.DaemonSet, selector labels.Selector) ([]*podview.Pod, error) {
	claims := loop.Claims[*podview.Pod]{
		Owner: ds, Kind: kind, Selector: selector,
		Live: func(ctx context.Context) (metav1.Object, error) {
			return c.kube.AppsV1().DaemonSets(ds.Namespace).Get(ctx, ds.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, pod *podview.Pod, patch []byte) error {
			return c.upkeep.Patch(ctx, pod, patch)
		},
	}
	return claims.Claim(ctx, owned.Candidates(c.pods, ds, selector))
}
