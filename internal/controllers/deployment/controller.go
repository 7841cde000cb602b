package deployment

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"deployment"}, New: New}

const name = "deployment-controller"

type controller struct {
	kube        kubernetes.Interface
	recorder    loop.Recorder
	now         func() time.Time
	deployments *informer.Shared[*appsv1.Deployment]
	sets        *informer.Shared[*appsv1.ReplicaSet]
	pods        *informer.Shared[*podview.Pod]
}

// New makes the loop.
func New(c *loop.Clients) (loop.Runner, error) {
	k := &controller{
		kube:        c.Kube,
		recorder:    c.Recorder,
		now:         c.Now,
		deployments: loop.Informer(c, informer.For(c.Kube.AppsV1().Deployments(""))),
		sets:        owned.Index(loop.Informer(c, informer.For(c.Kube.AppsV1().ReplicaSets("")))),
		pods:        podview.Informer(c),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 8, Sync: k.sync,
		Watches: []loop.Watch{
			loop.Self(k.deployments),
			loop.Owned(k.sets, kind),
			loop.Mapped(k.sets, k.matchingOwners),
			loop.Changes(k.pods, k.lastPodGone),
		},
	}, nil
}

// sync handles one Deployment.
func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	found, ok := c.deployments.Lookup(key)
	if !ok {
		return loop.Result{}, nil
	}
	d := found.DeepCopy() // the sync below stores its writes in it
	if apiequality.Semantic.DeepEqual(d.Spec.Selector, &metav1.LabelSelector{}) {
		return loop.Result{}, c.refuse(ctx, key, d)
	}
	sets, err := c.claim(ctx, key, d)
	if err != nil {
		return loop.Result{}, err
	}
	s := &oneSync{controller: c, key: key, rollout: newRollout(d, sets, c.now())}
	if d.DeletionTimestamp != nil {
		return loop.Result{}, s.writeStatus(ctx, s.counts())
	}
	if err := s.run(ctx); err != nil {
		return loop.Result{}, err
	}
	return loop.Result{After: s.check(&d.Status)}, nil
}

// refuse records once what is wrong with a Deployment that selects everything.
func (c *controller) refuse(ctx context.Context, key loop.Key, d *appsv1.Deployment) error {
	c.recorder.Eventf(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
	if d.Status.ObservedGeneration >= d.Generation {
		return nil
	}
	s := &oneSync{controller: c, key: key, rollout: newRollout(d, nil, c.now())}
	status := d.Status
	status.ObservedGeneration = d.Generation
	return s.writeStatus(ctx, status)
}

// claim adopts and releases ReplicaSets, and returns those of the Deployment.
func (c *controller) claim(ctx context.Context, key loop.Key, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, loop.Terminal(fmt.Errorf("selector of deployment %s: %w", key, err))
	}
	claims := loop.Claims[*appsv1.ReplicaSet]{
		Owner:    d,
		Kind:     kind,
		Selector: selector,
		Live: func(ctx context.Context) (metav1.Object, error) {
			return c.kube.AppsV1().Deployments(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
		},
		Patch: func(ctx context.Context, set *appsv1.ReplicaSet, patch []byte) error {
			return c.patchSet(ctx, key, set, patch)
		},
	}
	return claims.Claim(ctx, owned.Candidates(c.sets, d, selector))
}

// matchingOwners returns the Deployments that might adopt a ReplicaSet without owner.
func (c *controller) matchingOwners(set *appsv1.ReplicaSet) []loop.Key {
	if !owned.Orphan(set) {
		return nil
	}
	return owned.MatchingOwners(c.deployments, set, func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector })
}

// lastPodGone wakes a Deployment that waits until the pods of its old templates have ended.
func (c *controller) lastPodGone(before, after *podview.Pod) []loop.Key {
	// A pod that has ended and was deleted at once may appear only as a deletion.
	if before == nil || after != nil && (before.Finished() || !after.Finished()) {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(before)
	if ref == nil || ref.Kind != setKind.Kind {
		return nil
	}
	set, ok := c.sets.Get(before.Namespace, ref.Name)
	if !ok {
		return nil
	}
	parent := metav1.GetControllerOfNoCopy(set)
	if parent == nil || parent.Kind != kind.Kind {
		return nil
	}
	d, ok := c.deployments.Get(before.Namespace, parent.Name)
	if !ok || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return []loop.Key{informer.KeyOf(d)}
}
