package persistentvolume_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
	"github.com/millrace/millrace/internal/controllers/pvcprotection"
	"github.com/millrace/millrace/internal/controllers/pvprotection"
	"github.com/millrace/millrace/internal/randomly"
	"github.com/millrace/millrace/millracetest"
)

// world is an API server with the volume loops, in virtual time.
type world struct {
	*testing.T
	*looptest.Server
}

func inWorld(t *testing.T, f func(w world)) {
	t.Helper()
	withOptions(t, persistentvolume.Options{}, f)
}

func withOptions(t *testing.T, o persistentvolume.Options, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Namespace(s, "a")
		looptest.Start(t, s.Clients(), o.Entry(), pvcprotection.Entry, pvprotection.Entry)
		f(world{t, s})
	})
}

func (w world) pass() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func (w world) claim(name string, size, class string, edit ...func(*corev1.PersistentVolumeClaim)) {
	w.Helper()
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
			StorageClassName: &class,
		},
	}
	for _, e := range edit {
		e(c)
	}
	looptest.Create(w.Server, "persistentvolumeclaims", "a", c)
}

func (w world) volume(name string, size, class string, edit ...func(*corev1.PersistentVolume)) {
	w.Helper()
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			StorageClassName:       class,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/" + name}},
		},
	}
	for _, e := range edit {
		e(v)
	}
	looptest.Create(w.Server, "persistentvolumes", "", v)
}

func (w world) class(name string, mode storagev1.VolumeBindingMode, edit ...func(*storagev1.StorageClass)) {
	w.Helper()
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/disks", VolumeBindingMode: &mode}
	for _, e := range edit {
		e(c)
	}
	looptest.Create(w.Server, "storageclasses", "", c)
}

// has checks a claim's volume and phase.
func (w world) has(claim, volume string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
	w.Helper()
	c, err := w.Kube.CoreV1().PersistentVolumeClaims("a").Get(w.Context(), claim, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if c.Spec.VolumeName != volume || c.Status.Phase != phase {
		w.Errorf("claim %s has volume %q and is %s, want %q and %s", claim, c.Spec.VolumeName, c.Status.Phase, volume, phase)
	}
	return c
}

// is checks a volume's phase and the name of its claim.
func (w world) is(volume string, phase corev1.PersistentVolumePhase, claim string) *corev1.PersistentVolume {
	w.Helper()
	v, err := w.Kube.CoreV1().PersistentVolumes().Get(w.Context(), volume, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	has := ""
	if v.Spec.ClaimRef != nil {
		has = v.Spec.ClaimRef.Name
	}
	if v.Status.Phase != phase || has != claim {
		w.Errorf("volume %s is %s and belongs to %q, want %s and %q", volume, v.Status.Phase, has, phase, claim)
	}
	return v
}

func (w world) told(reason, message string) {
	w.Helper()
	var all []string
	for _, e := range looptest.All[corev1.Event](w.Server, "events") {
		if all = append(all, e.Reason+": "+e.Message); e.Reason == reason && e.Message == message {
			return
		}
	}
	w.Errorf("no event says %s: %q, but these: %q", reason, message, all)
}

func (w world) remove(claim string) {
	w.Helper()
	if err := w.Kube.CoreV1().PersistentVolumeClaims("a").Delete(w.Context(), claim, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestAClaimGetsTheSmallestSufficientVolume(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("large", "10Gi", "fast")
		w.volume("medium", "3Gi", "fast")
		w.volume("small", "1Gi", "fast")
		w.volume("other", "2Gi", "slow")
		w.pass()
		w.is("medium", corev1.VolumeAvailable, "")
		w.claim("c", "2Gi", "fast")
		w.pass()
		c := w.has("c", "medium", corev1.ClaimBound)
		if q := c.Status.Capacity[corev1.ResourceStorage]; q.String() != "3Gi" || len(c.Status.AccessModes) != 2 {
			t.Errorf("its status is %+v", c.Status)
		}
		for _, a := range []string{"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"} {
			if c.Annotations[a] != "yes" {
				t.Errorf("the claim has no %s", a)
			}
		}
		if v := w.is("medium", corev1.VolumeBound, "c"); v.Annotations["pv.kubernetes.io/bound-by-controller"] != "yes" || v.Spec.ClaimRef.UID != c.UID {
			t.Errorf("the volume is %+v", v)
		}
	})
}

func TestManyClaimsAndVolumesAreBoundOneToOne(t *testing.T) {
	inWorld(t, func(w world) {
		const n = 50
		for i := range n {
			w.volume("v"+string(rune('a'+i/26))+string(rune('a'+i%26)), "1Gi", "fast")
			w.claim("c"+string(rune('a'+i/26))+string(rune('a'+i%26)), "1Gi", "fast")
		}
		w.pass()
		taken := map[string]bool{}
		for _, c := range looptest.All[corev1.PersistentVolumeClaim](w.Server, "persistentvolumeclaims") {
			if c.Status.Phase != corev1.ClaimBound || taken[c.Spec.VolumeName] {
				t.Errorf("claim %s is %s and has %q", c.Name, c.Status.Phase, c.Spec.VolumeName)
			}
			taken[c.Spec.VolumeName] = true
		}
		if len(taken) != n {
			t.Errorf("%d volumes are taken, want %d", len(taken), n)
		}
	})
}

func TestAVolumeThatNamesAClaimIsReservedForIt(t *testing.T) {
	inWorld(t, func(w world) {
		w.class("late", storagev1.VolumeBindingWaitForFirstConsumer)
		w.volume("v", "5Gi", "late", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "a", Name: "mine"}
		})
		w.volume("w", "1Gi", "late")
		w.claim("other", "1Gi", "late")
		w.pass()
		w.is("v", corev1.VolumeAvailable, "mine")
		w.has("other", "", corev1.ClaimPending)
		w.claim("mine", "1Gi", "late")
		w.pass()
		w.has("mine", "v", corev1.ClaimBound)
		if v := w.is("v", corev1.VolumeBound, "mine"); v.Annotations["pv.kubernetes.io/bound-by-controller"] != "" {
			t.Error("what a user has bound is marked as bound by the loop")
		}
	})
}

func TestAClaimCanNameItsVolume(t *testing.T) {
	inWorld(t, func(w world) {
		named := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }
		w.claim("early", "1Gi", "", named)
		w.pass()
		w.has("early", "v", corev1.ClaimPending)
		w.volume("v", "2Gi", "")
		w.pass()
		if c := w.has("early", "v", corev1.ClaimBound); c.Annotations["pv.kubernetes.io/bound-by-controller"] != "" {
			t.Error("the claim is marked as bound by the loop")
		}
		w.claim("late", "1Gi", "", named)
		w.pass()
		w.has("late", "v", corev1.ClaimPending)
		w.told("FailedBinding", `volume "v" already bound to a different claim.`)
		w.volume("small", "1Gi", "")
		w.claim("big", "2Gi", "", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "small" })
		w.pass()
		w.has("big", "small", corev1.ClaimPending)
		w.told("VolumeMismatch", `Cannot bind to requested volume "small": requested PV is too small`)
	})
}

func TestAReleasedVolumeIsRetainedOrFails(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("kept", "1Gi", "a")
		w.volume("gone", "1Gi", "b", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "example.com/disks"}
		})
		w.volume("lost", "1Gi", "c", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}
		})
		w.volume("driven", "1Gi", "d", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d.example.com", VolumeHandle: "h"}}
		})
		for _, class := range []string{"a", "b", "c", "d"} {
			w.claim(class, "1Gi", class)
		}
		w.pass()
		for _, claim := range []string{"a", "b", "c", "d"} {
			w.remove(claim)
		}
		w.pass()
		w.is("kept", corev1.VolumeReleased, "a")
		w.is("gone", corev1.VolumeReleased, "b") // its provisioner deletes it
		w.is("lost", corev1.VolumeFailed, "c")
		w.is("driven", corev1.VolumeReleased, "d")
		w.told("VolumeFailedDelete", `error getting deleter volume plugin for volume "lost": no deletable volume plugin matched`)
		w.claim("a", "1Gi", "a")
		w.pass()
		w.has("a", "", corev1.ClaimPending) // a claim of the same name has another UID
	})
}

func TestAClaimWhoseVolumeWasDeletedIsLost(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("v", "1Gi", "a")
		w.claim("c", "1Gi", "a")
		w.pass()
		looptest.Edit(w.Server, "persistentvolumes", "", "v", func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased })
		if err := w.Kube.CoreV1().PersistentVolumes().Delete(w.Context(), "v", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		looptest.Edit(w.Server, "persistentvolumes", "", "v", func(v *corev1.PersistentVolume) { v.Finalizers = nil })
		w.pass()
		w.has("c", "v", corev1.ClaimLost)
		w.told("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	})
}

func TestAClaimWaitsForItsFirstConsumer(t *testing.T) {
	inWorld(t, func(w world) {
		w.class("late", storagev1.VolumeBindingWaitForFirstConsumer)
		w.claim("c", "1Gi", "late")
		w.pass()
		w.told("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
		looptest.Create(w.Server, "pods", "a", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{Containers: looptest.Containers(), Volumes: []corev1.Volume{{
				Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
			}}},
		})
		w.pass()
		w.told("WaitForPodScheduled", "waiting for pod p to be scheduled")
		if c := w.has("c", "", corev1.ClaimPending); c.Annotations[persistentvolume.StorageProvisioner] != "" {
			t.Error("a volume is asked for before a node is known")
		}
		looptest.Edit(w.Server, "persistentvolumeclaims", "a", "c", func(c *corev1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, persistentvolume.SelectedNode, "n")
		})
		w.pass()
		if c := w.has("c", "", corev1.ClaimPending); c.Annotations[persistentvolume.StorageProvisioner] != "example.com/disks" {
			t.Errorf("the claim has %v", c.Annotations)
		}
		w.told("ExternalProvisioning", "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.")
	})
}

func TestADriverMakesTheVolumesOfAProvisionerThatWasPartOfKubernetes(t *testing.T) {
	inWorld(t, func(w world) {
		w.class("old", storagev1.VolumeBindingImmediate, func(c *storagev1.StorageClass) { c.Provisioner = "kubernetes.io/aws-ebs" })
		w.claim("c", "1Gi", "old")
		w.class("unknown", storagev1.VolumeBindingImmediate, func(c *storagev1.StorageClass) { c.Provisioner = "kubernetes.io/other" })
		w.claim("d", "1Gi", "unknown")
		w.pass()
		if c := w.has("c", "", corev1.ClaimPending); c.Annotations[persistentvolume.StorageProvisioner] != "ebs.csi.aws.com" {
			t.Errorf("the claim has %v", c.Annotations)
		}
		w.told("ProvisioningFailed", "no volume plugin matched name: kubernetes.io/other")
	})
}

func TestAClaimWithoutAClassGetsALaterDefaultClass(t *testing.T) {
	inWorld(t, func(w world) {
		w.claim("c", "1Gi", "", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })
		w.claim("none", "1Gi", "")
		w.pass()
		w.told("FailedBinding", "no persistent volumes available for this claim and no storage class is set")
		w.class("standard", storagev1.VolumeBindingImmediate, func(c *storagev1.StorageClass) {
			c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		})
		w.pass()
		c := w.has("c", "", corev1.ClaimPending)
		if c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != "standard" || c.Annotations[persistentvolume.StorageProvisioner] == "" {
			t.Errorf("the claim has class %v and annotations %v", c.Spec.StorageClassName, c.Annotations)
		}
		if c := w.has("none", "", corev1.ClaimPending); *c.Spec.StorageClassName != "" {
			t.Error("a claim that wants no class has got one")
		}
	})
}

func TestARecycledVolumeIsAvailableAgain(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("v", "1Gi", "a", func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
		})
		w.claim("c", "1Gi", "a")
		w.pass()
		w.remove("c")
		w.pass()
		w.is("v", corev1.VolumeReleased, "c")
		pods := looptest.All[corev1.Pod](w.Server, "pods")
		if len(pods) != 1 || pods[0].Spec.Volumes[0].HostPath.Path != "/data/v" {
			t.Fatalf("the recyclers are %v", pods)
		}
		looptest.Edit(w.Server, "pods", "default", pods[0].Name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		w.pass()
		w.is("v", corev1.VolumeAvailable, "")
		w.told("VolumeRecycled", "Volume recycled")
	})
}

func TestAVolumeWhoseClaimHasAnotherVolumeIsAvailableAgain(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("v", "1Gi", "a")
		w.claim("c", "1Gi", "a")
		w.pass()
		c := w.has("c", "v", corev1.ClaimBound)
		ref := &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "a", Name: "c", UID: c.UID}
		w.volume("mine", "1Gi", "a", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = ref })
		w.volume("ours", "1Gi", "a", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = ref
			v.Annotations = map[string]string{"pv.kubernetes.io/bound-by-controller": "yes"}
		})
		w.pass()
		if v := w.is("mine", corev1.VolumeAvailable, "c"); v.Spec.ClaimRef.UID != "" {
			t.Error("the volume is still kept for one claim alone")
		}
		w.is("ours", corev1.VolumeAvailable, "")
	})
}

func TestAnInterruptedBindingIsCompleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Namespace(s, "a")
		lives := looptest.StartLives(t, s, rand.New(rand.NewPCG(randomly.Seed(t), 1)), persistentvolume.Options{}.Entry(), pvcprotection.Entry, pvprotection.Entry)
		w := world{t, s}
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		for _, name := range names {
			w.volume("v"+name, "1Gi", "x")
			w.claim("c"+name, "1Gi", "x")
			time.Sleep(time.Second)
		}
		w.pass()
		if lives.Calm() == 0 {
			t.Error("nothing crashed: the test shows nothing")
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		var taken []string
		for _, c := range looptest.All[corev1.PersistentVolumeClaim](s, "persistentvolumeclaims") {
			if c.Status.Phase != corev1.ClaimBound {
				t.Errorf("claim %s is %s", c.Name, c.Status.Phase)
			}
			taken = append(taken, c.Spec.VolumeName)
		}
		slices.Sort(taken)
		if len(slices.Compact(taken)) != len(names) {
			t.Errorf("the volumes taken are %v", taken)
		}
	})
}

func TestWithoutProvisioningNoVolumeIsRequested(t *testing.T) {
	withOptions(t, persistentvolume.Options{NoProvisioning: true}, func(w world) {
		w.class("now", storagev1.VolumeBindingImmediate)
		w.claim("c", "1Gi", "now")
		w.pass()
		if c := w.has("c", "", corev1.ClaimPending); c.Annotations[persistentvolume.StorageProvisioner] != "" {
			t.Errorf("the claim has %v", c.Annotations)
		}
		w.volume("v", "1Gi", "now")
		w.pass()
		w.has("c", "v", corev1.ClaimBound)
	})
}

func TestAClaimIsNotLostBecauseTheCacheOfVolumesIsBehind(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("v", "1Gi", "a", func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "a", Name: "c", UID: "an-earlier-one"}
		})
		w.pass()
		w.claim("c", "1Gi", "a")
		w.pass()
		uid := w.has("c", "", corev1.ClaimPending).UID
		w.HoldWatchesOf("persistentvolumes")
		looptest.Edit(w.Server, "persistentvolumes", "", "v", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = uid })
		looptest.Edit(w.Server, "persistentvolumeclaims", "a", "c", func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeName = "v"
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		})
		w.pass()
		w.has("c", "v", corev1.ClaimPending)
		w.HoldWatchesOf("")
		w.pass()
		w.has("c", "v", corev1.ClaimBound)
	})
}

func TestAClaimWhoseVolumeIsAnothersIsLost(t *testing.T) {
	inWorld(t, func(w world) {
		w.volume("v", "1Gi", "a")
		w.claim("c", "1Gi", "a")
		w.pass()
		looptest.Edit(w.Server, "persistentvolumes", "", "v", func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "another" })
		w.pass()
		w.has("c", "v", corev1.ClaimLost)
		w.told("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	})
}
