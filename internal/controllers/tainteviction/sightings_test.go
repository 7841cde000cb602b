package tainteviction

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATaintThatIsAddedAgainCountsAnew(t *testing.T) {
	s := sightings{nodes: map[string]map[corev1.Taint]time.Time{}}
	begin := time.Now()
	taint := corev1.Taint{Key: "broken", Effect: corev1.TaintEffectNoExecute}
	dated := func(at time.Time) []corev1.Taint {
		again := taint
		again.TimeAdded = &metav1.Time{Time: at}
		return []corev1.Taint{again}
	}
	first := dated(begin)
	s.date("n", first, begin)
	later := dated(begin.Add(time.Minute))
	s.added("n", dated(begin), later, begin.Add(2*time.Minute))
	s.date("n", later, begin.Add(3*time.Minute))
	if got := later[0].TimeAdded.Sub(begin); got != 2*time.Minute {
		t.Errorf("it counts from %s", got)
	}
}
