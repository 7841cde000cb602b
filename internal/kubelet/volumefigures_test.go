package kubelet

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/csi"
)

// TestAVolumeIsMeasuredUnderItsNameInThePod: drivers know neither claims nor pods.
func TestAVolumeIsMeasuredUnderItsNameInThePod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}}}
	for _, c := range []struct {
		usage csi.Usage
		want  string
	}{
		{csi.Usage{Volume: "scratch", Bytes: &csi.Amount{Total: 3, Available: 2, Used: 1}}, `{"name":"scratch","time":null,"availableBytes":2,"capacityBytes":3,"usedBytes":1}`},
		{csi.Usage{Claim: "c", Inodes: &csi.Amount{Total: 3, Available: 2, Used: 1}},
			`{"name":"data","time":null,"inodesFree":2,"inodes":3,"inodesUsed":1,"pvcRef":{"name":"c","namespace":"a"}}`},
		{csi.Usage{Claim: "p-own"}, `{"name":"own","time":null,"pvcRef":{"name":"p-own","namespace":"a"}}`},
	} {
		got, err := json.Marshal(volumeOf(pod, volumeName(pod, &c.usage), &c.usage))
		if err != nil || string(got) != c.want {
			t.Errorf("%+v is told as\n%s, %v, want\n%s", c.usage, got, err, c.want)
		}
	}
	if name := volumeName(pod, &csi.Usage{Claim: "other"}); name != "" {
		t.Errorf("a volume that the pod does not have is %s", name)
	}
}
