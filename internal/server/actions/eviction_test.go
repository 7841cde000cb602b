package actions

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/registry"
	"github.com/millrace/millrace/internal/server/registry/registrytest"
	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/store/faults"
	"github.com/millrace/millrace/internal/server/store/memory"
)

// evictions is a registry with a pod "p", which is Pending, and a budget that allows no disruption.
type evictions struct {
	t     *testing.T
	store *faults.Store
	*registry.Registry
}

func newEvictions(t *testing.T) *evictions {
	w := &evictions{t: t, store: faults.Wrap(memory.New(memory.Options{}))}
	t.Cleanup(func() { w.store.Close() })
	w.Registry = registrytest.Open(t, w.store)
	w.createPod()
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "p"}}
	_, err := w.of("policy", "poddisruptionbudgets").Create(t.Context(), "n", budget, registry.WriteOptions{})
	w.must(err)
	return w
}

func (e *evictions) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *evictions) of(group, of string) *registry.Storage {
	e.t.Helper()
	kind, _ := e.Catalogue.Kind(schema.GroupResource{Group: group, Resource: of})
	s, err := e.Storage(kind)
	e.must(err)
	return s
}

func (e *evictions) createPod() {
	e.t.Helper()
	pods := e.of("", "pods")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "p"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
	pods.Kind().Default(pod)
	_, err := pods.Create(e.t.Context(), "n", pod, registry.WriteOptions{})
	e.must(err)
}

func (e *evictions) pod() *corev1.Pod {
	e.t.Helper()
	pod, err := readPod(e.t.Context(), e.call(nil))
	if apierrors.IsNotFound(err) {
		return nil
	}
	e.must(err)
	return pod
}

// run lets the pod's status say that it runs and is ready.
func (e *evictions) run() {
	e.t.Helper()
	_, _, err := e.of("", "pods").Update(e.t.Context(), "n", "p", func(_ context.Context, old resource.Object) (resource.Object, error) {
		pod := old.(*corev1.Pod).DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		return pod, nil
	}, registry.UpdateOptions{View: "status"})
	e.must(err)
}

func (e *evictions) call(p *metav1.Preconditions) *apiserver.ActionCall {
	body := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &metav1.DeleteOptions{Preconditions: p}}
	c := &apiserver.ActionCall{}
	c.Registry, c.Storage, c.Namespace, c.Name, c.Body = e.Registry, e.of("", "pods"), "n", "p", body
	return c
}

// A pod that is Pending needs no budget. It must not be deleted without one after it has begun to run.
func TestAnEvictionAsksTheBudgetIfThePodHasBegunToRunMeanwhile(t *testing.T) {
	for what, op := range map[string]faults.Rule{"before it is marked": {Skip: 0}, "before it is deleted": {Skip: 1}} {
		t.Run(what, func(t *testing.T) {
			w := newEvictions(t)
			gate, done := make(chan struct{}), make(chan error, 1)
			op.Ops, op.Prefix, op.Gate, op.Times = faults.Update|faults.Delete, "/registry/pods/n/p", gate, 1
			w.store.Inject(op)
			before := w.store.Calls(faults.Update | faults.Delete)
			go func() {
				_, _, err := evict(t.Context(), w.call(nil))
				done <- err
			}()
			for w.store.Calls(faults.Update|faults.Delete) <= before+op.Skip {
				select {
				case err := <-done:
					t.Fatal("the eviction has ended early:", err)
				default:
				}
			}
			w.run()
			close(gate)
			if err := <-done; !apierrors.IsTooManyRequests(err) {
				t.Errorf("the eviction: %v", err)
			}
			if pod := w.pod(); pod == nil || pod.DeletionTimestamp != nil {
				t.Error("the pod is deleted without its budget")
			}
		})
	}
}

func TestAnEvictionKeepsThePreconditionsOfItsCaller(t *testing.T) {
	w := newEvictions(t)
	version, other := w.pod().ResourceVersion, "1"
	if _, _, err := evict(t.Context(), w.call(&metav1.Preconditions{ResourceVersion: &other})); !apierrors.IsConflict(err) {
		t.Errorf("at another version: %v", err)
	}
	if pod := w.pod(); pod.ResourceVersion != version {
		t.Errorf("a refused eviction has written the pod: %v", pod.Status.Conditions)
	}
	if _, _, err := evict(t.Context(), w.call(&metav1.Preconditions{ResourceVersion: &version})); err != nil {
		t.Errorf("at the pod's version: %v", err)
	}
	if w.pod() != nil {
		t.Error("the pod is still there")
	}
}
