package persistentvolume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAVolumeIsGivenToOneClaimUntilItChangesOrIsTakenBack(t *testing.T) {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", ResourceVersion: "1"}}
	changed := volume.DeepCopy()
	changed.ResourceVersion = "2"
	mine := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "mine"}}
	other := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "other"}}

	var g given
	g.note(volume, mine)
	if !g.toAnother(volume, other) || g.toAnother(volume, mine) || g.toAnother(changed, other) {
		t.Error("the volume is not given to its claim alone, in its version alone")
	}
	g.takeBack(volume, other)
	g.seen("v", "1")
	if !g.toAnother(volume, other) {
		t.Error("another claim, or the same version, took the volume back")
	}
	g.takeBack(volume, mine)
	if g.toAnother(volume, other) {
		t.Error("the volume was not taken back")
	}
	for _, version := range []string{"2", ""} {
		g.note(volume, mine)
		if g.seen("v", version); len(g.all) != 0 {
			t.Errorf("a volume that is seen with version %q is still known", version)
		}
	}
}
