package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/millrace/millrace/internal/kubelet/container"
	"github.com/millrace/millrace/internal/kubelet/furnish"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// stage is where a pod lives: a crew over a runtime, and the API as far as the crew can tell.
type stage struct {
	t       *testing.T
	ctx     context.Context
	options worker.Options
	crew    *worker.Crew

	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	pods   map[worker.Key]*corev1.Pod
	news   chan struct{} // closed and replaced at each change
	events []string
}

// testTimeout bounds what real containers take on a machine that has other work.
const testTimeout = 2 * time.Minute

func newStage(t *testing.T, runtime container.Runtime, images container.Images, real bool) *stage {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	s := &stage{t: t, ctx: ctx, pods: map[worker.Key]*corev1.Pod{}, news: make(chan struct{})}
	s.options = worker.Options{
		Runtime: runtime, Images: images, Wanted: s.wanted, Report: s.report, Addresses: func(string) []string { return []string{"127.0.0.1"} },
		Backoff: worker.Backoff{Initial: 400 * time.Millisecond, Max: 2 * time.Second}, Record: s, Workers: 8,
	}
	if real {
		s.options.Furnish = furnish.New(furnish.Options{Root: t.TempDir(), Addresses: []string{"127.0.0.1"}})
		s.options.Logs = t.TempDir()
	}
	s.begin()
	t.Cleanup(func() {
		defer cancel()
		s.clear()
		s.end()
	})
	return s
}

// begin starts a kubelet, end ends it. Containers go on.
func (s *stage) begin() {
	ctx, stop := context.WithCancel(s.ctx)
	s.stop = stop
	s.crew = worker.New(s.options)
	s.running.Go(func() {
		if err := s.crew.Run(ctx); err != nil {
			s.t.Errorf("the crew ended: %v", err)
		}
	})
}

func (s *stage) end() {
	s.stop()
	s.running.Wait()
}

func (s *stage) clear() {
	s.mu.Lock()
	s.pods = map[worker.Key]*corev1.Pod{}
	s.mu.Unlock()
	all, err := s.options.Runtime.Pods(s.ctx)
	if err != nil {
		s.t.Error(err)
	}
	for i := range all {
		if all[i].Name == "subject" {
			s.crew.Changed(worker.Key{Namespace: all[i].Namespace, Name: all[i].Name})
			s.crew.Found(&all[i])
		}
	}
	for s.crew.Len() > 0 && s.ctx.Err() == nil {
		s.pause(20 * time.Millisecond)
	}
}

func (s *stage) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}

func (s *stage) wanted(key worker.Key) (*corev1.Pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod, ok := s.pods[key]
	return pod, ok
}

func (s *stage) changedLocked() {
	close(s.news)
	s.news = make(chan struct{})
}

// report writes a status as the API would keep it, and removes pods whose deletion is done.
func (s *stage) report(_ context.Context, pod *corev1.Pod, status *corev1.PodStatus, finished bool) {
	key := keyOf(pod)
	defer s.crew.Changed(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.pods[key]
	if !ok || now.UID != pod.UID {
		return
	}
	now = now.DeepCopy()
	now.Status = *status.DeepCopy()
	s.pods[key] = now
	if finished && now.DeletionTimestamp != nil {
		delete(s.pods, key)
	}
	s.changedLocked()
}

func keyOf(pod *corev1.Pod) worker.Key { return worker.Key{Namespace: pod.Namespace, Name: pod.Name} }

// put makes a pod wanted.
func (s *stage) put(pod *corev1.Pod) *corev1.Pod {
	if pod.UID == "" {
		pod.UID = uuid.NewUUID()
	}
	s.mu.Lock()
	s.pods[keyOf(pod)] = pod
	s.changedLocked()
	s.mu.Unlock()
	s.crew.Changed(keyOf(pod))
	return pod
}

// change changes what is wanted of a pod.
func (s *stage) change(pod *corev1.Pod, edit func(*corev1.Pod)) {
	s.mu.Lock()
	next := s.pods[keyOf(pod)].DeepCopy()
	edit(next)
	s.pods[keyOf(pod)] = next
	s.changedLocked()
	s.mu.Unlock()
	s.crew.Changed(keyOf(pod))
}

// remove asks for a pod's end, as the API does.
func (s *stage) remove(pod *corev1.Pod) {
	s.mu.Lock()
	next := s.pods[keyOf(pod)].DeepCopy()
	grace := *next.Spec.TerminationGracePeriodSeconds
	next.DeletionGracePeriodSeconds = &grace
	next.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(time.Duration(grace) * time.Second)}
	s.pods[keyOf(pod)] = next
	s.changedLocked()
	s.mu.Unlock()
	s.crew.Changed(keyOf(pod))
}

// until waits until a pod's status is as described, and returns it.
func (s *stage) until(pod *corev1.Pod, what string, holds func(*corev1.PodStatus) bool) *corev1.PodStatus {
	s.t.Helper()
	var last *corev1.PodStatus
	for {
		s.mu.Lock()
		now, ok := s.pods[keyOf(pod)]
		news := s.news
		s.mu.Unlock()
		if ok && now.UID == pod.UID {
			last = &now.Status
			if holds(last) {
				return last
			}
		}
		select {
		case <-news:
		case <-s.ctx.Done():
			s.t.Fatalf("the pod never was %s; its status is %+v", what, last)
		}
	}
}

// gone waits until the API has a pod no more.
func (s *stage) gone(pod *corev1.Pod) {
	s.t.Helper()
	for {
		s.mu.Lock()
		now, ok := s.pods[keyOf(pod)]
		news := s.news
		s.mu.Unlock()
		if !ok || now.UID != pod.UID {
			return
		}
		select {
		case <-news:
		case <-s.ctx.Done():
			s.t.Fatalf("the pod was not deleted; its status is %+v", now.Status)
		}
	}
}

var _ loop.Recorder = (*stage)(nil)
