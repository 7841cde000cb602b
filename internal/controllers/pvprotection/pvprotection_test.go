package pvprotection_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/pvprotection"
	"github.com/millrace/millrace/millracetest"
)

func TestAVolumeIsDeletedWhenItIsNotBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), pvprotection.Entry)
		looptest.Create(s, "persistentvolumes", "", &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v"},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		})
		phase := func(p corev1.PersistentVolumePhase) {
			looptest.Edit(s, "persistentvolumes", "", "v", func(v *corev1.PersistentVolume) { v.Status.Phase = p })
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		phase(corev1.VolumeBound)
		if err := s.Kube.CoreV1().PersistentVolumes().Delete(t.Context(), "v", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		phase(corev1.VolumeBound)
		if n := len(looptest.All[corev1.PersistentVolume](s, "persistentvolumes")); n != 1 {
			t.Error("a bound volume has gone")
		}
		phase(corev1.VolumeReleased)
		if n := len(looptest.All[corev1.PersistentVolume](s, "persistentvolumes")); n != 0 {
			t.Error("a volume stays that no claim has")
		}
	})
}
