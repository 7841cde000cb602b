package admission_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	kinds "github.com/millrace/millrace/internal/server/resource"
)

// The tests of docs/freshness.md about plugins: this server's log is late, and another server writes.

func TestAQuotaIsNotExceededWhileTheLogIsHeld(t *testing.T) {
	d := newDuring(t)
	hard := corev1.ResourceList{"count/secrets": resource.MustParse("1")}
	d.other.Create("resourcequotas", &corev1.ResourceQuota{ObjectMeta: meta("q"), Spec: corev1.ResourceQuotaSpec{Hard: hard}})
	_, err := d.other.UpdateView("resourcequotas", "n", "q", "status", func(o kinds.Object) {
		o.(*corev1.ResourceQuota).Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"count/secrets": resource.MustParse("0")}}
	})
	d.Must(err)
	for _, w := range []*during{d, {World: d.other}} {
		_, err := w.Cache.Fresh(t.Context())
		d.Must(err)
	}
	defer d.log.Hold()()
	d.other.Create("secrets", &corev1.Secret{ObjectMeta: meta("first")})
	if _, err := d.Try("secrets", &corev1.Secret{ObjectMeta: meta("second")}, d.Options()); !apierrors.IsForbidden(err) {
		t.Errorf("the second secret of a quota of one: %v", err)
	}
}

func TestNothingIsSaidToBeMissingThatAnotherServerHasMade(t *testing.T) {
	d := newDuring(t)
	d.log.Delay(150 * time.Millisecond)
	d.other.Create("priorityclasses.scheduling.k8s.io", &schedulingv1.PriorityClass{ObjectMeta: meta("high"), Value: 7})
	made := d.Create("pods", pod("p", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }))
	if p := made.(*corev1.Pod).Spec.Priority; p == nil || *p != 7 {
		t.Errorf("the pod has the priority %v", p)
	}
}
