package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestImagesThatMayMoveAreAlwaysPulled(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                            corev1.PullAlways,
		"nginx:latest":                     corev1.PullAlways,
		"nginx:1.25":                       corev1.PullIfNotPresent,
		"localhost:5000/app":               corev1.PullAlways,
		"localhost:5000/app:1":             corev1.PullIfNotPresent,
		"Registry.Example/team/app":        corev1.PullAlways,
		"registry.example/team/app:latest": corev1.PullAlways,
		"nginx" + digest:                   corev1.PullIfNotPresent,
		"nginx:latest" + digest:            corev1.PullAlways,
		"nginx:latest@nonsense":            corev1.PullIfNotPresent,
		"":                                 corev1.PullIfNotPresent,
		"UPPER":                            corev1.PullIfNotPresent,
		"team/App":                         corev1.PullIfNotPresent,
		"a b":                              corev1.PullIfNotPresent,
		"a__b.c--d":                        corev1.PullAlways,
		"a___b":                            corev1.PullIfNotPresent,
		"-a":                               corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestPodsAskForTheirLimitsAndTemplatesDoNot(t *testing.T) {
	spec := corev1.PodSpec{
		HostNetwork: true,
		Containers: []corev1.Container{{
			Ports:     []corev1.ContainerPort{{ContainerPort: 80}},
			Resources: corev1.ResourceRequirements{Limits: list("cpu", "2", "memory", "1Gi"), Requests: list("cpu", "1.0001")},
		}},
	}
	p := &corev1.Pod{Spec: *spec.DeepCopy()}
	Default(p)
	c := p.Spec.Containers[0]
	if c.Resources.Requests.Memory().String() != "1Gi" || c.Resources.Requests.Cpu().String() != "1001m" || c.Ports[0].HostPort != 80 {
		t.Errorf("pod: %+v", c)
	}
	if p.Spec.EnableServiceLinks == nil || !*p.Spec.EnableServiceLinks {
		t.Error("pods are linked to services unless they say otherwise")
	}
	template := &corev1.PodTemplateSpec{Spec: *spec.DeepCopy()}
	DefaultTemplate(template)
	if c = template.Spec.Containers[0]; len(c.Resources.Requests) != 1 || c.Ports[0].HostPort != 0 || template.Spec.EnableServiceLinks != nil {
		t.Errorf("template: %+v", c)
	}
}

func TestPodsAsAWholeAskForWhatTheirContainersDo(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		Resources:  &corev1.ResourceRequirements{Limits: list("cpu", "4", "memory", "1Gi")},
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")}}, {Resources: corev1.ResourceRequirements{Requests: list("cpu", "1")}}},
		InitContainers: []corev1.Container{
			{RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: list("cpu", "500m")}},
			{Resources: corev1.ResourceRequirements{Requests: list("cpu", "3")}},
		},
	}}
	Default(p)
	r := p.Spec.Resources.Requests
	if r.Cpu().String() != "3500m" || r.Memory().String() != "1Gi" {
		t.Errorf("requests %v", r)
	}
}

func TestVolumesAndProbesGetTheirDefaults(t *testing.T) {
	s := corev1.PodSpec{
		DeprecatedServiceAccount: "sa",
		Volumes: []corev1.Volume{
			{Name: "nothing"},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}},
			{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}}},
			{Name: "image", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "a"}}},
			{Name: "disk", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}},
		},
		Containers: []corev1.Container{{
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(1)}}},
			StartupProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}},
			Lifecycle:     &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}},
			Env:           []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
		}},
	}
	defaultSpec(&s)
	c := s.Containers[0]
	if s.Volumes[0].EmptyDir == nil || *s.Volumes[1].HostPath.Type != "" || *s.Volumes[2].Projected.DefaultMode != 0o644 ||
		*s.Volumes[2].Projected.Sources[0].ServiceAccountToken.ExpirationSeconds != 3600 || s.Volumes[3].Image.PullPolicy != corev1.PullAlways ||
		s.Volumes[4].ISCSI.ISCSIInterface != "default" {
		t.Errorf("volumes: %+v", s.Volumes)
	}
	p := c.LivenessProbe
	if p.HTTPGet.Path != "/" || p.HTTPGet.Scheme != "HTTP" || p.TimeoutSeconds != 1 || p.PeriodSeconds != 10 || p.SuccessThreshold != 1 || p.FailureThreshold != 3 {
		t.Errorf("probe: %+v", p)
	}
	if c.StartupProbe.GRPC.Service == nil || c.Lifecycle.PreStop.HTTPGet.Scheme != "HTTP" || c.Env[0].ValueFrom.FieldRef.APIVersion != "v1" {
		t.Errorf("container: %+v", c)
	}
	if s.ServiceAccountName != "sa" || s.SchedulerName != "default-scheduler" || *s.TerminationGracePeriodSeconds != 30 {
		t.Errorf("spec: %+v", s)
	}
}
