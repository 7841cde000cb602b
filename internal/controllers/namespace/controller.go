package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const name = "namespace-controller"

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"namespace"}, New: New}

type controller struct {
	kube       kubernetes.Interface
	metadata   metadata.Interface
	discovery  discovery.DiscoveryInterface
	now        func() time.Time
	namespaces *informer.Shared[*corev1.Namespace]

	mu    sync.Mutex // guards tries
	tries map[loop.Key]int
}

// New returns the loop. It needs the metadata client.
func New(c *loop.Clients) (loop.Runner, error) {
	if c.Metadata == nil {
		return nil, errors.New("the namespace controller needs a metadata client")
	}
	n := &controller{
		kube: c.Kube, metadata: c.Metadata, discovery: c.Discovery, now: c.Now,
		namespaces: loop.Informer(c, informer.For(c.Kube.CoreV1().Namespaces())),
		tries:      map[loop.Key]int{},
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 10, Sync: n.sync,
		Watches: []loop.Watch{loop.Self(n.namespaces)},
	}, nil
}

func (n *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	ns, ok := n.namespaces.Lookup(key)
	if !ok || ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		n.forget(key)
		return loop.Result{}, nil
	}
	// The cached namespace may have been deleted and replaced by another one of the same name.
	ns, err := n.live(ctx, ns)
	if ns == nil || err != nil {
		return loop.Result{}, err
	}
	if ns.Status.Phase != corev1.NamespaceTerminating {
		// Set this first: from then on the server rejects new objects.
		ns.Status.Phase = corev1.NamespaceTerminating
		return loop.Result{}, n.writeStatus(ctx, key, ns)
	}
	found := n.empty(ctx, ns.Name)
	if merge(&ns.Status.Conditions, found.conditions(metav1.NewTime(n.now()))) && !found.finished() {
		if err := n.writeStatus(ctx, key, ns); err != nil {
			return loop.Result{}, err
		}
	}
	if !found.finished() {
		return loop.Result{After: n.pause(key)}, nil
	}
	err = n.finalize(ctx, key, ns)
	if apierrors.HasStatusCause(err, metav1.CauseType(metav1.StatusReasonStoreReadError)) { // the server knows of content that nobody can see
		return loop.Result{}, errors.Join(err, n.tell(ctx, key, ns.Name, err))
	}
	return loop.Result{}, err
}

// tell sets the conditions of a namespace whose removal the server has refused.
func (n *controller) tell(ctx context.Context, key loop.Key, name string, refusal error) error {
	ns, err := n.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ignoreVanished(err)
	}
	r := &round{failures: []error{refusal}}
	if !merge(&ns.Status.Conditions, r.conditions(metav1.NewTime(n.now()))) {
		return nil
	}
	return n.writeStatus(ctx, key, ns)
}

// live returns the current namespace, or nil if it is gone.
func (n *controller) live(ctx context.Context, cached *corev1.Namespace) (*corev1.Namespace, error) {
	ns, err := n.kube.CoreV1().Namespaces().Get(ctx, cached.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read namespace %s before it is emptied: %w", cached.Name, err)
	case ns.UID != cached.UID || ns.DeletionTimestamp == nil:
		return nil, nil
	}
	return ns, nil
}

func (n *controller) writeStatus(ctx context.Context, key loop.Key, ns *corev1.Namespace) error {
	written, err := n.kube.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of namespace %s: %w", ns.Name, err)
	}
	loop.Wrote(ctx, n.namespaces, written.ResourceVersion)
	return nil
}

// finalize removes our finalizer, so that the namespace is deleted.
func (n *controller) finalize(ctx context.Context, key loop.Key, ns *corev1.Namespace) error {
	ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	_, err := n.kube.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalize namespace %s: %w", ns.Name, err)
	}
	n.forget(key)
	return nil
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 15 * time.Second
)

// pause returns a growing delay: most namespaces are empty soon, but one that waits for a pod to end must not be listed
// all the time.
func (n *controller) pause(key loop.Key) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	tries := n.tries[key]
	n.tries[key]++
	return min(firstPause<<min(tries, 20), longestPause)
}

func (n *controller) forget(key loop.Key) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.tries, key)
}
