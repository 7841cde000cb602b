package service

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/podview"
	"github.com/millrace/millrace/loop"
)

func at(second int64) metav1.Time { return metav1.Unix(second, 0) }

func TestTheOldestChangeNotSeenYetIsTheTrigger(t *testing.T) {
	var triggers Triggers
	key := loop.Key{Namespace: "default", Name: "web"}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "s", CreationTimestamp: at(10)}}
	a := &podview.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}, ReadyChanged: at(20)}
	b := &podview.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}
	expect := func(what string, want int64, pods ...*podview.Pod) {
		t.Helper()
		got := triggers.Oldest(key, s, pods)
		if want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
			t.Errorf("%s: %v, want second %d", what, got, want)
		}
	}
	expect("a new service", 10, a, b)
	expect("nothing new", 0, a, b)
	b.ReadyChanged = at(20)
	expect("a pod that became ready in the same second as another", 20, a, b)
	a.ReadyChanged, b.ReadyChanged = at(32), at(31)
	expect("two changes", 31, a, b)
	expect("a pod that has gone", 0, a)
	triggers.Forget(key)
	expect("a service that was forgotten", 10, a)
}

func TestAStampWithoutATriggerIsRemoved(t *testing.T) {
	object := &corev1.Endpoints{}
	Stamp(object, time.Unix(0, 0))
	if got := object.Annotations[corev1.EndpointsLastChangeTriggerTime]; got != "1970-01-01T00:00:00Z" {
		t.Errorf("stamped %q", got)
	}
	Stamp(object, time.Time{})
	if len(object.Annotations) != 0 {
		t.Errorf("annotations %v", object.Annotations)
	}
}
