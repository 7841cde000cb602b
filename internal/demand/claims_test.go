package demand_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/demand"
)

func TestAVolumesClaimIsTheNamedOneOrThePodsOwn(t *testing.T) {
	named := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}
	own := corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	for want, source := range map[string]corev1.VolumeSource{"c": named, "pod-v": own, "": {EmptyDir: &corev1.EmptyDirVolumeSource{}}} {
		if got := demand.Claim("pod", &corev1.Volume{Name: "v", VolumeSource: source}); got != want {
			t.Errorf("the claim is %q, expected %q", got, want)
		}
	}
}
