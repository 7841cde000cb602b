package furnish

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/kubelet/container"
)

func TestAPodUsesOnlyTheVolumesOfItsClaims(t *testing.T) {
	claimOf := func(pv *corev1.PersistentVolume, namespace string, uid types.UID) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: "c", UID: uid}
	}
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"of nobody":                      func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil },
		"of another namespace":           func(pv *corev1.PersistentVolume) { claimOf(pv, "other", "c") },
		"of a claim that was there once": func(pv *corev1.PersistentVolume) { claimOf(pv, "default", "earlier") },
	} {
		f, pod := claimedLocal(t, t.TempDir(), corev1.PersistentVolumeFilesystem)
		pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/data"}}}}
		if err := f.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pv, err := f.Kube.CoreV1().PersistentVolumes().Get(t.Context(), "pv", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(pv)
		if _, err := f.Kube.CoreV1().PersistentVolumes().Update(t.Context(), pv, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := f.Prepare(t.Context(), pod); err == nil || !strings.Contains(err.Error(), `volume "pv" is not bound to claim "c"`) {
			t.Errorf("the volume %s: %v", name, err)
		}
	}
}

// Somebody makes the claim with the name that a pod's ephemeral volume will have, before the pod.
func TestAnEphemeralVolumeIsOfAClaimThatWasMadeForThePod(t *testing.T) {
	owned := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u1", Controller: new(true)}}
	for name, owners := range map[string][]metav1.OwnerReference{"nobody's": nil, "its own": owned, "an earlier pod's": {{Kind: "Pod", Name: "web", UID: "u0", Controller: new(true)}}} {
		kube := fake.NewClientset(
			&corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-v", UID: "c", OwnerReferences: owners},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			},
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "web-v", UID: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: t.TempDir()}},
			}},
		)
		err := New(Options{Root: t.TempDir(), Kube: kube}).Prepare(t.Context(), with(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}))
		if (err == nil) != (name == "its own") {
			t.Errorf("with a claim that is %s: %v", name, err)
		}
	}
}

func TestAVariableDoesNotLeadOutOfAnImage(t *testing.T) {
	for path, good := range map[string]bool{"part": true, "a/../b": true, "../x": false, "/etc": false, "a/../../x": false} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/data:1"}}}},
			Containers: []corev1.Container{{
				Name: "main", Env: []corev1.EnvVar{{Name: "P", Value: path}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data", SubPathExpr: "$(P)"}},
			}},
		}}
		spec := &container.Spec{Pod: pod, Container: &pod.Spec.Containers[0], VolumeImages: map[string]string{"data": "sha256:1"}, Sandbox: &container.SandboxSpec{Pod: pod}}
		f := New(Options{Root: t.TempDir()})
		if err := f.Prepare(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if err := f.Furnish(t.Context(), spec, nil); (err == nil) != good {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// mounting has volumes of drivers in one directory.
type mounting struct{ at string }

func (m mounting) Persistent(context.Context, *corev1.Pod, *corev1.PersistentVolumeClaim, *corev1.PersistentVolume, bool) (string, error) {
	return m.at, nil
}
func (m mounting) Inline(context.Context, *corev1.Pod, *corev1.Volume) (string, error) {
	return m.at, nil
}
func (m mounting) Release(context.Context, string) error { return nil }

func TestAReadOnlyVolumeOfADriverIsMountedReadOnly(t *testing.T) {
	for _, only := range []bool{false, true} {
		kube := fake.NewClientset(
			&corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c"},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			},
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: "c", UID: "c"},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", ReadOnly: only}},
			}},
		)
		f := New(Options{Root: t.TempDir(), Kube: kube, Drivers: mounting{t.TempDir()}})
		for name, v := range map[string]corev1.VolumeSource{
			"inline": {CSI: &corev1.CSIVolumeSource{Driver: "d", ReadOnly: &only}},
			"claim":  {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
		} {
			pod := with(v)
			if err := f.Prepare(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			spec := specOf(pod, &pod.Spec.Containers[0])
			if err := f.Furnish(t.Context(), spec, nil); err != nil || spec.Mounts[0].ReadOnly != only {
				t.Errorf("%s: read-only is %v, want %v, %v", name, spec.Mounts[0].ReadOnly, only, err)
			}
		}
	}
}
