package replicaset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/internal/pace"
	"github.com/millrace/millrace/internal/controllers/internal/upkeep"
	"github.com/millrace/millrace/internal/controllers/owned"
	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

type controller struct {
	kind   Kind
	kube   kubernetes.Interface
	now    func() time.Time
	sets   *informer.Shared[*appsv1.ReplicaSet]
	pods   *informer.Shared[*podview.Pod]
	upkeep upkeep.Pods
	pace   pace.Pace
}

// New returns the loop for the kind.
func (k Kind) New(c *loop.Clients) (loop.Runner, error) {
	r := &controller{
		kind: k,
		kube: c.Kube,
		now:  c.Now,
		sets: owned.Index(k.Sets(c)),
		pods: podview.Informer(c),
	}
	r.upkeep = upkeep.Pods{Kube: c.Kube, Recorder: c.Recorder, Cache: r.pods}
	return &loop.Loop{Name: k.Loop, Clients: c, Workers: 8, Sync: r.sync, Watches: []loop.Watch{
		loop.Self(r.sets),
		loop.Changes(r.pods, r.woken).Paced(r.pace.Of),
	}}, nil
}

// sync handles one ReplicaSet.
func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	rs, ok := r.sets.Lookup(key)
	if !ok {
		r.pace.Forget(key)
		return loop.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return loop.Result{}, loop.Terminal(fmt.Errorf("selector of %s %s: %w", r.kind.Kind, key, err))
	}
	pods, err := r.claim(ctx, key, rs, selector)
	if err != nil {
		return loop.Result{}, err
	}
	found := count(rs, pods, r.now())
	r.pace.Set(key, len(pods))
	var failure error
	if rs.DeletionTimestamp == nil {
		failure = r.resize(ctx, rs, found.active)
	}
	if err := r.writeStatus(ctx, key, rs, r.status(rs, found, failure)); err != nil {
		return loop.Result{}, err
	}
	if failure != nil {
		return loop.Result{}, failure
	}
	return loop.Result{After: r.again(rs, found)}, nil
}

// again returns when the ReplicaSet must be synced again even if nothing changes.
func (r *controller) again(rs *appsv1.ReplicaSet, found census) time.Duration {
	missing := replicas(rs) - len(found.active)
	switch {
	case rs.DeletionTimestamp == nil && (missing > burst || missing < -burst):
		return time.Millisecond // the next burst, as soon as the cache shows this one
	case found.next.IsZero():
		return 0
	}
	return max(time.Millisecond, found.next.Sub(r.now()))
}

// claim adopts and releases pods, and returns those of the ReplicaSet.
func (r *controller) claim(ctx context.Context, key loop.Key, rs *appsv1.ReplicaSet, selector labels.Selector) ([]*podview.Pod, error) {
	claims := loop.Claims[*podview.Pod]{
		Owner:    rs,
		Kind:     r.kind.GroupVersionKind,
		Selector: selector,
		Live: func(ctx context.Context) (metav1.Object, error) {
			return r.kind.Live(ctx, r.kube, rs.Namespace, rs.Name)
		},
		Patch: func(ctx context.Context, pod *podview.Pod, patch []byte) error {
			return r.upkeep.Patch(ctx, pod, patch)
		},
	}
	return claims.Claim(ctx, func(yield func(*podview.Pod) bool) {
		for pod := range owned.Candidates(r.pods, rs, selector) {
			// A finished pod is not adopted.
			if (pod.Active() || !owned.Orphan(pod)) && !yield(pod) {
				return
			}
		}
	})
}

func (r *controller) writeStatus(ctx context.Context, key loop.Key, rs *appsv1.ReplicaSet, s appsv1.ReplicaSetStatus) error {
	if sameStatus(&rs.Status, &s) {
		return nil
	}
	changed := *rs
	changed.Status = s
	version, err := r.kind.WriteStatus(ctx, r.kube, &changed)
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", r.kind.Kind, key, err)
	}
	loop.Wrote(ctx, r.sets, version)
	return nil
}
