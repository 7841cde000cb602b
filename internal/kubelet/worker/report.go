package worker

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

// ReporterOptions configure a Reporter.
type ReporterOptions struct {
	Kube kubernetes.Interface
	// Cached returns the pod from the cache of the API server's pods.
	Cached func(Key) (*corev1.Pod, bool)
	// Workers is how many writes may run at the same time: 64 by default.
	Workers int
	Clients *loop.Clients
	// As returns the context for a node's requests. Nil uses the given context.
	As func(ctx context.Context, node string) context.Context
}

// Reporter writes pod statuses to the API server: only the newest status of each pod, in one request. While the server
// cannot be reached it keeps trying. It also completes the deletion of pods that have ended. It is a loop.Runner.
type Reporter struct {
	ReporterOptions
	loop *loop.Loop

	mu      sync.Mutex // guards what follows
	pending map[Key]report
	written map[Key]version
}

type report struct {
	why      cause.Cause
	pod      *corev1.Pod
	status   *corev1.PodStatus
	finished bool
}

// version maps the resource version before our last write to the one after it, until the cache has it.
type version struct{ base, now string }

// NewReporter returns a Reporter. Run starts it.
func NewReporter(o ReporterOptions) *Reporter {
	if o.Workers == 0 {
		o.Workers = 64
	}
	r := &Reporter{ReporterOptions: o, pending: map[Key]report{}, written: map[Key]version{}}
	r.loop = &loop.Loop{
		Name: "statuses", Clients: o.Clients, Workers: o.Workers, Sync: r.sync,
		Queue: queue.Options[Key]{BaseDelay: 50 * time.Millisecond, MaxDelay: 10 * time.Second, RetryRate: -1},
	}
	return r
}

// Run writes statuses until ctx ends.
func (r *Reporter) Run(ctx context.Context) error { return r.loop.Run(ctx) }

// whyOf returns the cause of a status.
func whyOf(ctx context.Context, pod *corev1.Pod) cause.Cause {
	why, _ := cause.From(ctx)
	why.Loop = "kubelet"
	if pod.Spec.NodeName != "" {
		why.Loop += " of " + pod.Spec.NodeName
	}
	return why
}

// Report takes a status and does not block. The context says what has caused it. An older status of the same pod that
// still waits is dropped.
func (r *Reporter) Report(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	key := loop.Key{Namespace: pod.Namespace, Name: pod.Name}
	r.mu.Lock()
	r.pending[key] = report{whyOf(ctx, pod), pod, status, finished}
	r.mu.Unlock()
	r.loop.Add(key)
}

func (r *Reporter) sync(ctx context.Context, key Key) (loop.Result, error) {
	r.mu.Lock()
	next, ok := r.pending[key]
	r.mu.Unlock()
	if !ok {
		return loop.Result{}, nil
	}
	if r.As != nil {
		ctx = r.As(ctx, next.pod.Spec.NodeName)
	}
	if err := r.write(cause.With(ctx, next.why), key, next); err != nil {
		return loop.Result{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[key].status == next.status {
		delete(r.pending, key)
		if next.finished {
			delete(r.written, key)
		}
	}
	return loop.Result{}, nil
}

// Forget drops the state of a pod that is gone.
func (r *Reporter) Forget(key Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pending, key)
	delete(r.written, key)
}

func (r *Reporter) write(ctx context.Context, key Key, next report) error {
	cached, ok := r.Cached(key)
	if !ok || cached.UID != next.pod.UID {
		cached = next.pod
	}
	if next.finished && cached.DeletionTimestamp != nil && equality.Semantic.DeepEqual(ownPart(&cached.Status), ownPart(next.status)) {
		return r.Remove(ctx, next.pod) // the end was reported already
	}
	written, err := r.update(ctx, r.upToDate(key, cached), next.status)
	if apierrors.IsConflict(err) {
		written, err = r.overwrite(ctx, key, next)
	}
	if apierrors.IsNotFound(err) || err == nil && written == nil {
		return nil
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.written[key] = version{cached.ResourceVersion, written.ResourceVersion}
	r.mu.Unlock()
	if !next.finished || written.DeletionTimestamp == nil {
		return nil
	}
	return r.Remove(ctx, next.pod)
}

// upToDate returns the pod with the resource version of our last write if the cache does not have that write yet. The
// two versions differ only in the status, so writes of other clients still lead to a conflict.
func (r *Reporter) upToDate(key Key, cached *corev1.Pod) *corev1.Pod {
	r.mu.Lock()
	v, ok := r.written[key]
	r.mu.Unlock()
	if !ok || v.base != cached.ResourceVersion {
		return cached
	}
	pod := *cached
	pod.ResourceVersion = v.now
	return &pod
}

func (r *Reporter) update(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) (*corev1.Pod, error) {
	next := *pod // a shallow copy will do, because it is only encoded
	next.Status = Merge(status, &pod.Status)
	return r.Kube.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &next, metav1.UpdateOptions{})
}

// overwrite reads the pod again and writes the status. It returns no pod if the pod was replaced, because there is
// nothing to write then.
func (r *Reporter) overwrite(ctx context.Context, key Key, next report) (*corev1.Pod, error) {
	now, err := r.Kube.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if now.UID != next.pod.UID {
		return nil, nil
	}
	return r.update(ctx, now, next.status)
}

// Remove deletes a pod at once: one whose end is complete, or one that nobody runs.
func (r *Reporter) Remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	err := r.Kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsConflict(err) { // another pod has the name now, or another client has written at the same time
		found, lost := r.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if lost == nil && found.UID == pod.UID {
			return err
		}
		err = lost
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
