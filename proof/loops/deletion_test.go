package loops_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

func TestDeletions(t *testing.T) {
	all := start(t, millrace.Options{Nodes: 4})
	for name, test := range map[string]func(*world){
		"a namespace goes with everything in it":                  namespaceGoes,
		"what a deployment made goes after it":                    func(w *world) { w.deleteWithPods(metav1.DeletePropagationBackground) },
		"in the foreground a deployment goes after what it made":  func(w *world) { w.deleteWithPods(metav1.DeletePropagationForeground) },
		"orphaned pods stay, and who matches them takes them":     orphansStay,
		"what has two owners stays as long as one of them does":   secondOwnerKeeps,
		"an owner that does not exist takes its dependents along": missingOwner,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(all.within(t))
		})
	}
}

// gone returns nil if the error is NotFound.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("it is there: %w", err)
}

var errStays = fmt.Errorf("no error")

// absent returns an error unless reading failed with NotFound.
func absent[V any](_ V, err error) error {
	if err == nil {
		return errStays
	}
	return gone(err)
}

func namespaceGoes(w *world) {
	w.deploy(deployment("web", 6))
	w.submit(job("sum", 2, 50, 0))
	must(w.kube.CoreV1().ConfigMaps(w.ns).Create(w.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}, metav1.CreateOptions{}))(w)
	must(w.kube.CoreV1().Services(w.ns).Create(w.Context(), service("web"), metav1.CreateOptions{}))(w)
	w.eventually("there are pods", func() error {
		if len(w.pods("")) < 4 {
			return errStays
		}
		return nil
	})
	w.ok(w.kube.CoreV1().Namespaces().Delete(w.Context(), w.ns, metav1.DeleteOptions{}))
	w.eventually("the namespace is gone", func() error {
		ns, err := w.kube.CoreV1().Namespaces().Get(w.Context(), w.ns, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("%+v", ns.Status)
		}
		return gone(err)
	})
	if err := w.none(""); err != nil {
		w.Errorf("the namespace has gone before its pods: %v", err)
	}
}

func (w *world) deleteWithPods(how metav1.DeletionPropagation) {
	w.deploy(deployment("web", 4))
	w.rolledOut("web")
	deployments, sets := w.kube.AppsV1().Deployments(w.ns), w.kube.AppsV1().ReplicaSets(w.ns)
	w.ok(deployments.Delete(w.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &how}))
	w.eventually("the deployment is gone", func() error { return absent(deployments.Get(w.Context(), "web", metav1.GetOptions{})) })
	if how == metav1.DeletePropagationForeground {
		if list := must(sets.List(w.Context(), metav1.ListOptions{}))(w); len(list.Items) > 0 {
			w.Errorf("the deployment has gone before %d replica sets", len(list.Items))
		}
		if err := w.none("app=web"); err != nil {
			w.Errorf("the deployment has gone before its pods: %v", err)
		}
	}
	w.eventually("nothing is left", func() error {
		if list := must(sets.List(w.Context(), metav1.ListOptions{}))(w); len(list.Items) > 0 {
			return fmt.Errorf("%d replica sets", len(list.Items))
		}
		return w.none("app=web")
	})
}

func orphansStay(w *world) {
	w.deploy(deployment("web", 3))
	w.rolledOut("web")
	h := w.watch("app=web")
	sets := must(w.kube.AppsV1().ReplicaSets(w.ns).List(w.Context(), metav1.ListOptions{}))(w).Items
	orphan := metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationOrphan)}
	w.ok(w.kube.AppsV1().Deployments(w.ns).Delete(w.Context(), "web", orphan))
	w.eventually("the deployment is gone and its set has no owner", func() error {
		if err := absent(w.kube.AppsV1().Deployments(w.ns).Get(w.Context(), "web", metav1.GetOptions{})); err != nil {
			return err
		}
		return w.unowned(sets[0].Name)
	})
	w.ok(w.kube.AppsV1().ReplicaSets(w.ns).Delete(w.Context(), sets[0].Name, orphan))
	w.eventually("the replica set is gone and its pods have no owner", func() error {
		if err := absent(w.kube.AppsV1().ReplicaSets(w.ns).Get(w.Context(), sets[0].Name, metav1.GetOptions{})); err != nil {
			return err
		}
		for _, p := range w.pods("app=web") {
			if len(p.OwnerReferences) > 0 {
				return fmt.Errorf("pod %s has %v", p.Name, p.OwnerReferences)
			}
		}
		return nil
	})
	w.ok(w.adopt(sets[0]))
	w.eventually("the pods have a new owner", func() error {
		for _, p := range w.pods("app=web") {
			if metav1.GetControllerOf(&p) == nil {
				return fmt.Errorf("pod %s has none", p.Name)
			}
		}
		return nil
	})
	if created, deleted := h.totals(); created != 3 || deleted != 0 {
		w.Errorf("%d pods were there and %d were deleted, want 3 and 0", created, deleted)
	}
}

func (w *world) unowned(set string) error {
	rs, err := w.kube.AppsV1().ReplicaSets(w.ns).Get(w.Context(), set, metav1.GetOptions{})
	if err == nil && len(rs.OwnerReferences) > 0 {
		err = fmt.Errorf("replica set %s has %v", set, rs.OwnerReferences)
	}
	return err
}

// adopt creates a replica set with the same selector as a deleted one.
func (w *world) adopt(was appsv1.ReplicaSet) error {
	_, err := w.kube.AppsV1().ReplicaSets(w.ns).Create(w.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "heir", Labels: was.Labels}, Spec: was.Spec,
	}, metav1.CreateOptions{})
	return err
}

func (w *world) configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	w.Helper()
	return must(w.kube.CoreV1().ConfigMaps(w.ns).Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
	}, metav1.CreateOptions{}))(w)
}

func owner(c *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: c.Name, UID: c.UID}
}

func secondOwnerKeeps(w *world) {
	maps := w.kube.CoreV1().ConfigMaps(w.ns)
	a, b := w.configMap("a"), w.configMap("b")
	child := w.configMap("child", owner(a), owner(b))
	w.configMap("only-a", owner(a))
	w.ok(maps.Delete(w.Context(), "a", metav1.DeleteOptions{}))
	w.eventually("what only a owned is gone", func() error { return absent(maps.Get(w.Context(), "only-a", metav1.GetOptions{})) })
	w.eventually("the child has one owner left", func() error {
		c, err := maps.Get(w.Context(), "child", metav1.GetOptions{})
		if err == nil && (c.UID != child.UID || len(c.OwnerReferences) != 1) {
			err = fmt.Errorf("owners are %v", c.OwnerReferences)
		}
		return err
	})
	w.ok(maps.Delete(w.Context(), "b", metav1.DeleteOptions{}))
	w.eventually("the child is gone", func() error { return absent(maps.Get(w.Context(), "child", metav1.GetOptions{})) })
}

func missingOwner(w *world) {
	nobody := metav1.OwnerReference{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: "never", UID: "e3bb6a8e-4a7c-4f0e-9d6e-6a1f9f2d9b11"}
	w.configMap("lost", nobody)
	w.eventually("it is gone", func() error {
		return absent(w.kube.CoreV1().ConfigMaps(w.ns).Get(w.Context(), "lost", metav1.GetOptions{}))
	})
}
