package loops_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/watch"
)

// history receives all changes of the pods of a namespace, in order. After each change it runs its checks on the
// current pods, so no state between two changes is left out.
type history struct {
	w        *world
	selector string

	mu      sync.Mutex
	pods    map[string]*corev1.Pod
	uids    map[types.UID]string // all pods that ever existed
	deleted map[types.UID]bool
	nodes   map[types.UID]string
	checks  []func(pods map[string]*corev1.Pod) error
	failure error
}

// watch begins a history. It ends with the test, which fails if a check has failed.
func (w *world) watch(selector string) *history {
	w.Helper()
	h := &history{w: w, selector: selector, pods: map[string]*corev1.Pod{}, uids: map[types.UID]string{}, deleted: map[types.UID]bool{}, nodes: map[types.UID]string{}}
	list := must(w.kube.CoreV1().Pods(w.ns).List(w.Context(), metav1.ListOptions{LabelSelector: selector}))(w)
	for i := range list.Items {
		h.take(watch.Added, &list.Items[i])
	}
	events := must(informer.For(w.kube.CoreV1().Pods(w.ns)).Watch(w.Context(), metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion}))(w)
	ctx, cancel := context.WithCancel(w.Context())
	var following sync.WaitGroup
	following.Go(func() {
		_, err := watch.Until(ctx, events, func(e watch.Event[*corev1.Pod]) (bool, error) {
			h.take(e.Type, e.Object)
			return false, nil
		})
		if w.Context().Err() == nil && ctx.Err() == nil { // the test's context ends a moment before the one made of it
			h.fail(fmt.Errorf("the watch ended: %w", err))
		}
	})
	w.Cleanup(func() {
		cancel()
		following.Wait()
		if err := h.err(); err != nil {
			w.Error(err)
		}
	})
	return h
}

func (h *history) take(kind watch.EventType, p *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kind == watch.Bookmark || p == nil {
		return
	}
	h.uids[p.UID] = p.Name
	if was := h.nodes[p.UID]; was != "" && was != p.Spec.NodeName {
		h.failLocked(fmt.Errorf("pod %s moved from node %s to %q", p.Name, was, p.Spec.NodeName))
	}
	h.nodes[p.UID] = p.Spec.NodeName
	if kind == watch.Deleted {
		delete(h.pods, p.Name)
		h.deleted[p.UID] = true
	} else {
		h.pods[p.Name] = p
	}
	for _, check := range h.checks {
		if err := check(h.pods); err != nil {
			h.failLocked(err)
		}
	}
}

// always adds a check that must hold from now on, after every change.
func (h *history) always(check func(pods map[string]*corev1.Pod) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(h.checks, check)
}

// stopChecks removes all checks.
func (h *history) stopChecks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = nil
}

// totals returns how many pods have been created, and how many of them deleted. The watch may be behind the test's
// reads: it waits until both have the same pods.
func (h *history) totals() (created, deleted int) {
	h.w.Helper()
	h.w.eventually("the watch shows the pods that there are", func() error {
		pods := h.w.pods(h.selector)
		h.mu.Lock()
		defer h.mu.Unlock()
		for i := range pods {
			if seen := h.pods[pods[i].Name]; seen == nil || seen.UID != pods[i].UID {
				return fmt.Errorf("pod %s was not seen", pods[i].Name)
			}
		}
		if len(pods) != len(h.pods) {
			return fmt.Errorf("there are %d pods, and the watch shows %d", len(pods), len(h.pods))
		}
		return nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.uids), len(h.deleted)
}

func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failLocked(err)
}

func (h *history) failLocked(err error) {
	if h.failure == nil {
		h.failure = err
	}
}

func (h *history) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

// checkBounds returns the check of a rolling update: never more pods than most, never fewer ready ones than least.
func checkBounds(least, most int) func(map[string]*corev1.Pod) error {
	return func(pods map[string]*corev1.Pod) error {
		there, able := 0, 0
		for _, p := range pods {
			if !active(p) {
				continue
			}
			there++
			if ready(p) {
				able++
			}
		}
		if there > most || able < least {
			return fmt.Errorf("%d pods, %d of them ready: allowed are at most %d and at least %d", there, able, most, least)
		}
		return nil
	}
}
