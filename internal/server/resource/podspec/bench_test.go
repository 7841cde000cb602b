package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// plainPod returns a pod as controllers make them by the thousand.
func plainPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-5d8f7c9b6d-abcde", Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/app:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
				Env: []corev1.EnvVar{{Name: "MODE", Value: "x"}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				},
				VolumeMounts:  []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets"}},
				LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}}},
			}},
			Volumes: []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}}},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
			},
		},
	}
}

func BenchmarkValidate(b *testing.B) {
	p := plainPod()
	Default(p)
	b.ReportAllocs()
	for b.Loop() {
		if errs := Validate(p, Options{}); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkDefault(b *testing.B) {
	p := plainPod()
	b.ReportAllocs()
	for b.Loop() {
		p.Spec.SecurityContext, p.Spec.TerminationGracePeriodSeconds, p.Spec.Containers[0].ImagePullPolicy = nil, nil, ""
		p.Spec.Containers[0].LivenessProbe.TimeoutSeconds, p.Spec.EnableServiceLinks = 0, nil
		Default(p)
	}
}
