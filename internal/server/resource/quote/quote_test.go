package quote

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestValuesAreQuotedByGoNames(t *testing.T) {
	one := intstr.FromInt32(1)
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, `null`},
		{(*corev1.Probe)(nil), `null`},
		{appsv1.DeploymentStrategy{Type: "Fast"}, `{"Type":"Fast","RollingUpdate":null}`},
		{policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			`{"MinAvailable":1,"Selector":{"matchLabels":{"app":"web"}},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}`},
		{&corev1.SecurityContext{Privileged: new(true), AllowPrivilegeEscalation: new(false)},
			`{"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}`},
		{[]corev1.LocalObjectReference{{Name: "a"}}, `[{"Name":"a"}]`},
		{corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "n"}, Key: "k"}, `{"Name":"n","Key":"k","Optional":null}`},
	} {
		got, err := json.Marshal(Of(c.value))
		if err != nil || string(got) != c.want {
			t.Errorf("%T:\nwant %s\ngot  %s (%v)", c.value, c.want, got, err)
		}
	}
}

func TestTemplatesKeepTheirMetadata(t *testing.T) {
	got, err := json.Marshal(Of(corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{HostNetwork: true, SecurityContext: &corev1.PodSecurityContext{}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,"Containers":null,"EphemeralContainers":null,"RestartPolicy":"",`
	if len(got) < len(want) || string(got[:len(want)]) != want {
		t.Errorf("got %s", got)
	}
}
