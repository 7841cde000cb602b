package loops_test

import (
	"encoding/json"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/kubelet/hollow"
)

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{hollow.Prefix + "start-delay": "20ms"}},
				Spec: corev1.PodSpec{
					Containers:                    []corev1.Container{{Name: "main", Image: "image:1"}},
					TerminationGracePeriodSeconds: ptr(int64(1)),
				},
			},
		},
	}
}

func (w *world) deploy(d *appsv1.Deployment) {
	w.Helper()
	must(w.kube.AppsV1().Deployments(w.ns).Create(w.Context(), d, metav1.CreateOptions{}))(w)
}

// patch merges a change into a deployment.
func (w *world) patch(name string, change map[string]any) {
	w.Helper()
	body := must(json.Marshal(change))(w)
	must(w.kube.AppsV1().Deployments(w.ns).Patch(w.Context(), name, types.StrategicMergePatchType, body, metav1.PatchOptions{}))(w)
}

func scaled(n int) map[string]any    { return map[string]any{"spec": map[string]any{"replicas": n}} }
func paused(yes bool) map[string]any { return map[string]any{"spec": map[string]any{"paused": yes}} }

func imaged(image string) map[string]any {
	container := map[string]any{"name": "main", "image": image}
	return map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{container}}}}}
}

// rolledOut waits until a deployment has exactly the declared pods.
func (w *world) rolledOut(name string) {
	w.Helper()
	w.eventually("deployment "+name+" is rolled out", func() error { return w.asDeclared(name) })
}

func (w *world) asDeclared(name string) error {
	d, err := w.kube.AppsV1().Deployments(w.ns).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	n, s := *d.Spec.Replicas, d.Status
	if s.ObservedGeneration != d.Generation || s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n {
		return fmt.Errorf("%d replicas, generation %d: %+v", n, d.Generation, s)
	}
	pods := w.pods("app=" + name)
	for i := range pods {
		p := &pods[i]
		if !active(p) || !ready(p) || p.Spec.NodeName == "" || p.Spec.Containers[0].Image != d.Spec.Template.Spec.Containers[0].Image {
			return fmt.Errorf("pod %s on %q with %s is %s", p.Name, p.Spec.NodeName, p.Spec.Containers[0].Image, p.Status.Phase)
		}
	}
	if len(pods) != int(n) {
		return fmt.Errorf("%d pods where %d are wanted", len(pods), n)
	}
	return nil
}

func TestDeployments(t *testing.T) {
	all := start(t, millrace.Options{Nodes: 4})
	for name, test := range map[string]func(*world){
		"a rolling update keeps its bounds at every moment":      rollingKeepsBounds,
		"a rolling update without surge keeps its bounds":        rollingWithoutSurge,
		"a recreated deployment never runs old and new together": recreateNeverOverlaps,
		"undoing goes back to the replica set that was":          undoing,
		"a paused deployment scales but does not roll":           pausing,
		"scaling down takes only what is too much":               scalingDown,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(all.within(t))
		})
	}
}

func rollingKeepsBounds(w *world) { w.roll("25%", "25%", 6, 10) }

func rollingWithoutSurge(w *world) { w.roll("0", "2", 6, 8) }

// roll updates a deployment of eight twice, the second time before the first rollout is complete.
func (w *world) roll(surge, unavailable string, least, most int) {
	d := deployment("web", 8)
	s, u := intstr.Parse(surge), intstr.Parse(unavailable)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}
	w.deploy(d)
	w.rolledOut("web")
	h := w.watch("app=web")
	h.always(checkBounds(least, most))
	w.patch("web", imaged("image:2"))
	w.eventually("some pods are new", func() error {
		for _, p := range w.pods("app=web") {
			if p.Spec.Containers[0].Image == "image:2" && ready(&p) {
				return nil
			}
		}
		return fmt.Errorf("none is")
	})
	w.patch("web", imaged("image:3"))
	w.rolledOut("web")
	h.stopChecks()
}

func recreateNeverOverlaps(w *world) {
	d := deployment("web", 4)
	d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	w.deploy(d)
	w.rolledOut("web")
	h := w.watch("app=web")
	h.always(func(pods map[string]*corev1.Pod) error {
		images := map[string]string{}
		for _, p := range pods {
			images[p.Spec.Containers[0].Image] = p.Name
		}
		if len(images) > 1 {
			return fmt.Errorf("there are pods of two templates: %v", images)
		}
		return nil
	})
	w.patch("web", imaged("image:2"))
	w.rolledOut("web")
}

func undoing(w *world) {
	w.deploy(deployment("web", 3))
	w.rolledOut("web")
	first := w.revisions()
	w.patch("web", imaged("image:2"))
	w.rolledOut("web")
	w.patch("web", imaged("image:1"))
	w.rolledOut("web")
	now := w.revisions()
	if len(now) != 2 {
		w.Fatalf("there are %d replica sets, not the two templates that there were: %v", len(now), now)
	}
	for name, was := range first {
		if was != "1" || now[name] != "3" {
			w.Errorf("replica set %s was revision %s and is %s", name, was, now[name])
		}
	}
}

// revisions returns the revisions of the namespace's replica sets, by name.
func (w *world) revisions() map[string]string {
	w.Helper()
	revisions := map[string]string{}
	for _, rs := range must(w.kube.AppsV1().ReplicaSets(w.ns).List(w.Context(), metav1.ListOptions{}))(w).Items {
		revisions[rs.Name] = rs.Annotations["deployment.kubernetes.io/revision"]
	}
	return revisions
}

func pausing(w *world) {
	w.deploy(deployment("web", 2))
	w.rolledOut("web")
	h := w.watch("app=web")
	w.patch("web", paused(true))
	w.patch("web", imaged("image:2"))
	w.patch("web", scaled(5))
	h.always(func(pods map[string]*corev1.Pod) error {
		for _, p := range pods {
			if p.Spec.Containers[0].Image != "image:1" {
				return fmt.Errorf("pod %s is new though the deployment is paused", p.Name)
			}
		}
		return nil
	})
	w.eventually("there are five old pods", func() error {
		if n := len(w.pods("app=web")); n != 5 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	h.stopChecks()
	w.patch("web", paused(false))
	w.rolledOut("web")
}

func scalingDown(w *world) {
	w.deploy(deployment("web", 12))
	w.rolledOut("web")
	h := w.watch("app=web")
	w.patch("web", scaled(5))
	w.rolledOut("web")
	if created, deleted := h.totals(); created != 12 || deleted != 7 {
		w.Errorf("%d pods were there and %d were deleted, want 12 and 7", created, deleted)
	}
}
