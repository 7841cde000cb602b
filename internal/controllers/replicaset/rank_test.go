package replicaset

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
)

func TestTheLeastUsefulPodsAreDeletedFirst(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	full := func(edit func(*podview.Pod)) *podview.Pod {
		p := &podview.Pod{Node: "a", Phase: corev1.PodRunning, Ready: true, ReadyChanged: ago(time.Hour)}
		p.CreationTimestamp = ago(2 * time.Hour)
		edit(p)
		return p
	}
	for name, pair := range map[string][2]*podview.Pod{ // the first of each pair is deleted first
		"unassigned": {full(func(p *podview.Pod) { p.Node = "" }), full(func(*podview.Pod) {})},
		"pending":    {full(func(p *podview.Pod) { p.Phase = corev1.PodPending }), full(func(p *podview.Pod) { p.Phase = corev1.PodUnknown })},
		"unknown":    {full(func(p *podview.Pod) { p.Phase = corev1.PodUnknown }), full(func(*podview.Pod) {})},
		"not ready":  {full(func(p *podview.Pod) { p.Ready = false }), full(func(*podview.Pod) {})},
		"cheaper": {
			full(func(p *podview.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} }),
			full(func(p *podview.Pod) { p.MostRestarts = 9 }),
		},
		"doubled up":      {full(func(p *podview.Pod) { p.Node = "crowded" }), full(func(p *podview.Pod) { p.ReadyChanged = ago(time.Second) })},
		"much newer":      {full(func(p *podview.Pod) { p.ReadyChanged = ago(time.Second) }), full(func(p *podview.Pod) { p.MostRestarts = 9 })},
		"more restarts":   {full(func(p *podview.Pod) { p.MostRestarts = 1; p.ReadyChanged = ago(time.Hour + time.Second) }), full(func(*podview.Pod) {})},
		"created later":   {full(func(p *podview.Pod) { p.CreationTimestamp = ago(time.Minute) }), full(func(*podview.Pod) {})},
		"by uid, in fact": {full(func(p *podview.Pod) { p.UID = "a" }), full(func(p *podview.Pod) { p.UID = "b" })},
	} {
		first, second := pair[0], pair[1]
		for _, order := range [][]*podview.Pod{{first, second}, {second, first}} {
			if got := choose(order, 1, map[string]int{"a": 1, "crowded": 3}, now); got[0] != first {
				t.Errorf("%s: the wrong pod goes first", name)
			}
		}
	}
}

func BenchmarkCountFiveThousandPods(b *testing.B) {
	size := int32(5000)
	rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{
		Replicas: &size, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
	}}
	pods := make([]*podview.Pod, 5000)
	for i := range pods {
		pods[i] = &podview.Pod{Node: "a", Phase: corev1.PodRunning, Ready: true}
		pods[i].Labels = rs.Spec.Template.Labels
	}
	for b.Loop() {
		count(rs, pods, time.Now())
	}
}

func TestAgesAreComparedWithThatOfTheYoungestReadyPod(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	since := func(d time.Duration, ready bool) *podview.Pod {
		return &podview.Pod{Ready: ready, ReadyChanged: metav1.NewTime(now.Add(-d))}
	}
	old, young, unready := since(time.Hour, true), since(20*time.Minute, true), since(time.Second, false)
	var got []float64
	report := func(ratio float64) { got = append(got, ratio) }
	compareAges([]*podview.Pod{old, unready, young}, []*podview.Pod{old, young, unready}, now, report)
	if !slices.Equal(got, []float64{3, 1}) {
		t.Errorf("ratios %v", got)
	}
	got = nil
	compareAges([]*podview.Pod{unready}, []*podview.Pod{unready}, now, report)
	compareAges([]*podview.Pod{old}, []*podview.Pod{old, since(0, true)}, now, report)
	if len(got) > 0 {
		t.Errorf("without a youngest pod there are ratios %v", got)
	}
}
