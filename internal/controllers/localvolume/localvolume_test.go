package localvolume_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/localvolume"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
	"github.com/millrace/millrace/internal/controllers/pvcprotection"
	"github.com/millrace/millrace/internal/controllers/pvprotection"
	"github.com/millrace/millrace/millracetest"
)

// inWorld runs a test with the volume loops, in a cluster with a node "n" that has local volumes and one, "m", that has
// not.
func inWorld(t *testing.T, f func(t *testing.T, s *looptest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Namespace(s, "a")
		node := func(name string, annotations map[string]string) {
			looptest.Create(s, "nodes", "", &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name + ".example"}, Annotations: annotations},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			})
		}
		node("n", map[string]string{localvolume.DirectoryAnnotation: "/volumes"})
		node("m", nil)
		looptest.Start(t, s.Clients(), localvolume.Options{Class: "standard"}.Entry(), persistentvolume.Options{}.Entry(), pvcprotection.Entry, pvprotection.Entry)
		pass()
		f(t, s)
	})
}

func pass() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

func claim(s *looptest.Server, name string, edit func(*corev1.PersistentVolumeClaim)) {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if edit != nil {
		edit(c)
	}
	looptest.Create(s, "persistentvolumeclaims", "a", c)
}

func selectNode(s *looptest.Server, claim, node string) {
	looptest.Edit(s, "persistentvolumeclaims", "a", claim, func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, persistentvolume.SelectedNode, node)
	})
	pass()
}

func volumes(s *looptest.Server) []*corev1.PersistentVolume {
	return looptest.All[corev1.PersistentVolume](s, "persistentvolumes")
}

func TestAClaimGetsAVolume(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		claim(s, "c", nil)
		pass()
		if all := volumes(s); len(all) != 0 {
			t.Fatalf("volumes were made before a node was selected: %v", all)
		}
		selectNode(s, "c", "n")
		c := looptest.All[corev1.PersistentVolumeClaim](s, "persistentvolumeclaims")[0]
		all := volumes(s)
		if len(all) != 1 || c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName != all[0].Name {
			t.Fatalf("the claim is %+v, the volumes are %v", c, all)
		}
		v := all[0]
		if v.Name != "pvc-"+string(c.UID) || v.Spec.Local == nil || v.Spec.Local.Path != "/volumes/"+v.Name || v.Spec.StorageClassName != "standard" {
			t.Errorf("the volume is %+v", v.Spec)
		}
		if r := v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; r.Key != corev1.LabelHostname || r.Values[0] != "n.example" {
			t.Errorf("the volume is for %v", r)
		}
	})
}

func TestANodeWithoutLocalVolumesIsNotUsed(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		claim(s, "c", nil)
		selectNode(s, "c", "m")
		c := looptest.All[corev1.PersistentVolumeClaim](s, "persistentvolumeclaims")[0]
		if _, there := c.Annotations[persistentvolume.SelectedNode]; there || len(volumes(s)) != 0 {
			t.Errorf("the scheduler is not asked again: %v", c.Annotations)
		}
		selectNode(s, "c", "n")
		if len(volumes(s)) != 1 {
			t.Error("no volume was made on another node")
		}
	})
}

func TestAVolumeIsDeletedAfterItsData(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		looptest.Edit(s, "nodes", "", "n", func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = 1 })
		asked, away := 0, true
		s.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/nodes/n/proxy/localVolumes/pvc-") && r.Method == http.MethodDelete {
				asked++
				if away {
					return errors.New("the node is away")
				}
				r.URL.Path = "/version" // as if the node had removed it
				r.Method = http.MethodGet
			}
			return nil
		}, nil)
		claim(s, "c", nil)
		selectNode(s, "c", "n")
		if err := s.Kube.CoreV1().PersistentVolumeClaims("a").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		if len(volumes(s)) != 1 || asked == 0 {
			t.Fatalf("the volume has gone before its data (asked %d times)", asked)
		}
		away = false
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if all := volumes(s); len(all) != 0 {
			t.Errorf("still there: %+v", all[0])
		}
	})
}

func TestAVolumeIsDeletedWithItsNode(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		claim(s, "c", nil)
		selectNode(s, "c", "n")
		if err := s.Kube.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Kube.CoreV1().PersistentVolumeClaims("a").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		if all := volumes(s); len(all) != 0 {
			t.Errorf("still there: %+v", all[0])
		}
	})
}

func TestTheDefaultClassIsMadeOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		all := looptest.All[storagev1.StorageClass](s, "storageclasses")
		if len(all) != 1 || all[0].Name != "standard" || all[0].Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			t.Fatalf("the classes are %v", all)
		}
		if err := s.Kube.StorageV1().StorageClasses().Delete(t.Context(), "standard", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		if all := looptest.All[storagev1.StorageClass](s, "storageclasses"); len(all) != 0 {
			t.Error("the user's deletion was undone")
		}
	})
}

func TestAClassWithImmediateBindingNeedsNoPod(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		now := storagev1.VolumeBindingImmediate
		looptest.Create(s, "storageclasses", "", &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: localvolume.Provisioner, VolumeBindingMode: &now})
		class, block := "now", corev1.PersistentVolumeBlock
		claim(s, "c", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &class })
		claim(s, "d", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName, c.Spec.VolumeMode = &class, &block })
		pass()
		for _, c := range looptest.All[corev1.PersistentVolumeClaim](s, "persistentvolumeclaims") {
			if want := map[string]corev1.PersistentVolumeClaimPhase{"c": corev1.ClaimBound, "d": corev1.ClaimPending}[c.Name]; c.Status.Phase != want {
				t.Errorf("claim %s is %s", c.Name, c.Status.Phase)
			}
		}
	})
}

func TestAPodWithAClaimRunsOnAHollowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 3}).Config())
		pass()
		looptest.Namespace(s, "a")
		pass()
		claim(s, "c", nil)
		looptest.Create(s, "pods", "a", &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{Containers: looptest.Containers(), Volumes: []corev1.Volume{{
				Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
			}, {
				Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					},
				}}},
			}}},
		})
		pass()
		p := looptest.All[corev1.Pod](s, "pods")[0]
		if p.Status.Phase != corev1.PodRunning || len(volumes(s)) != 2 {
			t.Fatalf("the pod is %+v, the volumes are %v", p.Status, volumes(s))
		}
		for _, v := range volumes(s) {
			if v.Status.Phase != corev1.VolumeBound {
				t.Errorf("volume %s is %s", v.Name, v.Status.Phase)
			}
		}
		if err := s.Kube.CoreV1().Pods("a").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		if all := volumes(s); len(all) != 1 || all[0].Spec.ClaimRef.Name != "c" {
			t.Errorf("after the pod, the volumes are %v", all)
		}
		if err := s.Kube.CoreV1().PersistentVolumeClaims("a").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		if all := volumes(s); len(all) != 0 {
			t.Errorf("after the claim, the volumes are %v", all)
		}
	})
}

func TestTheDataOfAVolumeStaysThatIsInUseAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, s *looptest.Server) {
		looptest.Edit(s, "nodes", "", "n", func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = 1 })
		removed, away := 0, true
		s.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/nodes/n/proxy/localVolumes/pvc-") && r.Method == http.MethodDelete {
				if away {
					return errors.New("the node is away")
				}
				removed++
			}
			return nil
		}, nil)
		claim(s, "c", nil)
		selectNode(s, "c", "n")
		if err := s.Kube.CoreV1().PersistentVolumeClaims("a").Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass()
		s.HoldWatchesOf("persistentvolumes") // the cache shows the volume as released
		looptest.Edit(s, "persistentvolumes", "", volumes(s)[0].Name, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound })
		away = false
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if removed > 0 {
			t.Errorf("its data was removed %d times", removed)
		}
	})
}
