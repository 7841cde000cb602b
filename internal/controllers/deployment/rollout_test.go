package deployment

import (
	"math"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A ReplicaSet of a Deployment without pods is marked with how many pods its rollout might have had.
func TestTheMarkOfNoPodsHasTheSurge(t *testing.T) {
	none, one, half := int32(0), intstr.FromInt32(1), intstr.FromString("50%")
	for surge, want := range map[*intstr.IntOrString]string{&one: "1", &half: "0"} {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &none}}
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: surge, MaxUnavailable: &one}
		set := &appsv1.ReplicaSet{}
		markSize(set, d)
		if got := set.Annotations[maximumKey]; got != want || bounds(d).unavailable != 0 {
			t.Errorf("with a surge of %s the mark is %s, want %s", surge, got, want)
		}
	}
}

// The controller of a ReplicaSet that was reduced from four to two may have made the fourth pod without having counted
// it.
func TestNoPodIsAddedBeforeThoseOfAReducedReplicaSetAreCounted(t *testing.T) {
	set := func(size int32, generation, observed int64, counted int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Generation: generation},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &size},
			Status:     appsv1.ReplicaSetStatus{ObservedGeneration: observed, Replicas: counted},
		}
	}
	eight, none, two := int32(8), intstr.FromInt32(0), intstr.FromInt32(2)
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &eight}}
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &none, MaxUnavailable: &two}
	for name, test := range map[string]struct {
		reduced *appsv1.ReplicaSet
		want    int
	}{
		"not counted": {set(2, 3, 2, 2), 1},
		"too many":    {set(2, 3, 3, 3), 1},
		"counted":     {set(2, 3, 3, 2), 2},
		"new":         {set(2, 1, 0, 0), 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := rollout{d: d, current: set(1, 1, 1, 1), old: []*appsv1.ReplicaSet{set(4, 1, 1, 4), test.reduced}}
			if got := r.firstSize(); got != test.want {
				t.Errorf("size %d, want %d", got, test.want)
			}
		})
	}
}

func TestSizesThatNeedMoreThan32BitsTogetherAreComputed(t *testing.T) {
	const most = math.MaxInt32
	set := func(name string, size, available int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(name), Annotations: map[string]string{desiredKey: "1", maximumKey: "1"}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &size}, Status: appsv1.ReplicaSetStatus{Replicas: available, AvailableReplicas: available},
		}
	}
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(most))}}
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromInt32(most)), MaxUnavailable: new(intstr.FromInt32(0))}
	r := rollout{d: d, current: set("c", 5, 5), old: []*appsv1.ReplicaSet{set("a", most, most), set("b", most, most)}}
	if got := r.firstSize(); got != 5 {
		t.Errorf("the current set gets %d pods beside two that have all", got)
	}
	for _, c := range r.shrink() {
		if c.to < 0 || c.to > most {
			t.Errorf("a set shrinks to %d", c.to)
		}
	}
	for _, c := range r.proportional() {
		if c.to < 0 || c.to > most {
			t.Errorf("a set is scaled to %d", c.to)
		}
	}
	if s := r.counts(); s.Replicas != most || s.AvailableReplicas != most || s.UnavailableReplicas != 0 {
		t.Errorf("the status says %+v", s)
	}
}
