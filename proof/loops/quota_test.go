package loops_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace/millrace"
)

func TestAQuotaBoundsADeploymentAndSaysWhatIsUsed(t *testing.T) {
	t.Parallel()
	w := start(t, millrace.Options{Nodes: 2})
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("3"), "count/deployments.apps": resource.MustParse("1")}},
	}
	must(w.kube.CoreV1().ResourceQuotas(w.ns).Create(w.Context(), quota, metav1.CreateOptions{}))(w)
	w.eventually("the quota is in force", func() error { return w.used("pods", 0) })
	w.deploy(deployment("web", 5))
	w.eventually("the quota is used up", func() error { return w.used("pods", 3) })
	w.eventually("the deployment is counted", func() error { return w.used("count/deployments.apps", 1) })
	w.eventually("people are told why pods are missing", func() error {
		for _, c := range must(w.kube.AppsV1().Deployments(w.ns).Get(w.Context(), "web", metav1.GetOptions{}))(w).Status.Conditions {
			if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("no condition says so")
	})
	if n := len(w.pods("app=web")); n != 3 {
		t.Errorf("there are %d pods", n)
	}
	must(w.kube.CoreV1().ResourceQuotas(w.ns).Patch(w.Context(), "few", types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"10"}}}`), metav1.PatchOptions{}))(w)
	w.rolledOut("web")
	w.patch("web", scaled(1))
	w.eventually("what is freed is said", func() error { return w.used("pods", 1) })
}

// used returns nil if the quota's status has this usage.
func (w *world) used(name corev1.ResourceName, n int64) error {
	q, err := w.kube.CoreV1().ResourceQuotas(w.ns).Get(w.Context(), "few", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if is, there := q.Status.Used[name]; !there || is.Value() != n {
		return fmt.Errorf("the status is %v", q.Status)
	}
	return nil
}
