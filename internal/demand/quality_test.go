package demand_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace/millrace/internal/demand"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestQOSClassFollowsFromRequestsAndLimits(t *testing.T) {
	one := func(requests, limits corev1.ResourceList) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
	}
	whole := list("cpu", "1", "memory", "1Gi")
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want corev1.PodQOSClass
	}{
		"nothing":               {corev1.PodSpec{Containers: []corev1.Container{{}}}, corev1.PodQOSBestEffort},
		"other resources":       {corev1.PodSpec{Containers: []corev1.Container{one(list("ephemeral-storage", "1"), nil)}}, corev1.PodQOSBestEffort},
		"zero":                  {corev1.PodSpec{Containers: []corev1.Container{one(list("cpu", "0"), nil)}}, corev1.PodQOSBestEffort},
		"requests":              {corev1.PodSpec{Containers: []corev1.Container{one(whole, nil)}}, corev1.PodQOSBurstable},
		"all":                   {corev1.PodSpec{Containers: []corev1.Container{one(whole, whole)}}, corev1.PodQOSGuaranteed},
		"all but one container": {corev1.PodSpec{Containers: []corev1.Container{one(whole, whole), {}}}, corev1.PodQOSBurstable},
		"only cpu":              {corev1.PodSpec{Containers: []corev1.Container{one(list("cpu", "1"), list("cpu", "1"))}}, corev1.PodQOSBurstable},
		"less than the limit":   {corev1.PodSpec{Containers: []corev1.Container{one(list("cpu", "1", "memory", "1Mi"), whole)}}, corev1.PodQOSBurstable},
		"as a whole":            {corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: whole, Limits: whole}, Containers: []corev1.Container{{}}}, corev1.PodQOSGuaranteed},
	} {
		if got := demand.QOSClass(&c.spec); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
