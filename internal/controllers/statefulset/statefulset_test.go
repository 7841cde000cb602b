package statefulset_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/garbage"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/statefulset"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestPodsAreCreatedOneAfterTheOtherWithNamesAndClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		stop := looptest.Observe(c.server, func() {
			waiting := 0
			for _, p := range c.pods() {
				if !looptest.Ready(p) {
					waiting++
				}
			}
			if waiting > 1 {
				t.Errorf("%d pods start at the same time", waiting)
			}
		})
		c.create(3, func(*appsv1.StatefulSet) {})
		c.settle()
		stop()
		c.expect("web-0 web-1 web-2")
		p := c.pods()[1]
		if p.Spec.Hostname != "web-1" || p.Spec.Subdomain != "web" || p.Labels["statefulset.kubernetes.io/pod-name"] != "web-1" || p.Labels["apps.kubernetes.io/pod-index"] != "1" {
			t.Errorf("pod %v %q %q", p.Labels, p.Spec.Hostname, p.Spec.Subdomain)
		}
		if v := p.Spec.Volumes[0]; v.Name != "data" || v.PersistentVolumeClaim.ClaimName != "data-web-1" {
			t.Errorf("volume %+v", v)
		}
		c.expectClaims("data-web-0 data-web-1 data-web-2")
		s := c.set().Status
		if s.Replicas != 3 || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.CurrentReplicas != 3 || s.UpdatedReplicas != 3 || s.CurrentRevision != s.UpdateRevision || p.Labels["controller-revision-hash"] != s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
		c.event("SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success")
		c.event("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful")
	})
}

func TestParallelPodsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		c.nodes.Unready = func(p *corev1.Pod) bool { return p.Name == "web-0" }
		c.run()
		c.create(4, func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement })
		c.settle()
		c.expect("web-0 web-1 web-2 web-3")
		if s := c.set().Status; s.ReadyReplicas != 3 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestAnOrderedSetStopsAtAPodThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		c.nodes.Unready = func(p *corev1.Pod) bool { return p.Name == "web-1" }
		c.run()
		c.create(4, func(*appsv1.StatefulSet) {})
		c.settle()
		c.expect("web-0 web-1")
	})
}

func TestOrdinalsStartWhereTheSetSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(3, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} })
		c.settle()
		c.expect("web-5 web-6 web-7")
		c.edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals.Start = 6 })
		c.settle()
		c.expect("web-6 web-7 web-8")
	})
}

func TestAnUpdateStopsAtThePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(4, func(s *appsv1.StatefulSet) { partition(s, 2) })
		c.settle()
		stop := c.watchReady(3)
		c.image("image:2")
		c.settle()
		c.expectImages("image image image:2 image:2")
		s := c.set().Status
		if s.CurrentReplicas != 2 || s.UpdatedReplicas != 2 || s.CurrentRevision == s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
		// A pod below the partition is made from the old revision again.
		_ = c.server.Kube.CoreV1().Pods("default").Delete(t.Context(), "web-0", metav1.DeleteOptions{})
		c.settle()
		c.expectImages("image image image:2 image:2")
		c.edit(func(s *appsv1.StatefulSet) { partition(s, 0) })
		c.settle()
		stop()
		c.expectImages("image:2 image:2 image:2 image:2")
		if s := c.set().Status; s.CurrentReplicas != 4 || s.CurrentRevision != s.UpdateRevision {
			t.Errorf("status %+v", s)
		}
	})
}

func TestAnUpdateRespectsMaxUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(6, func(s *appsv1.StatefulSet) {
			three := intstr.FromInt32(3)
			s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &three}
			s.Spec.MinReadySeconds = 10
		})
		c.settle()
		stop := c.watchReady(3)
		c.image("image:2")
		began := time.Now()
		for c.set().Status.UpdatedReplicas < 6 && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("two rounds of three pods took %v", took)
		}
		c.settle()
		stop()
		c.expectImages(strings.TrimSpace(strings.Repeat("image:2 ", 6)))
	})
}

// A pod that is unavailable already counts among those that may be. It must not stop the update that would mend it.
func TestAnUpdateReplacesPodsThatNeverBecomeAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		c.nodes.Unready = func(p *corev1.Pod) bool { return p.Name != "web-2" && p.Spec.Containers[0].Image == "image" }
		c.run()
		c.create(4, func(s *appsv1.StatefulSet) {
			s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			partition(s, 1)
		})
		c.settle()
		stop := looptest.Observe(c.server, func() {
			for _, p := range c.pods() {
				if p.Name == "web-2" && p.Spec.Containers[0].Image == "image" && p.DeletionTimestamp != nil {
					t.Error("the only pod that is available is replaced while others, that the partition keeps, are not available")
				}
			}
		})
		c.image("image:2")
		c.settle()
		stop()
		c.expectImages("image image:2 image image:2")
		c.edit(func(s *appsv1.StatefulSet) { partition(s, 0) })
		c.settle()
		c.expectImages("image:2 image:2 image:2 image:2")
	})
}

func TestOnDeleteWaitsUntilAPodIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(2, func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType })
		c.settle()
		c.image("image:2")
		c.settle()
		c.expectImages("image image")
		_ = c.server.Kube.CoreV1().Pods("default").Delete(t.Context(), "web-0", metav1.DeleteOptions{})
		c.settle()
		c.expectImages("image:2 image")
	})
}

func TestClaimsAreDeletedIfThePolicySaysSo(t *testing.T) {
	keep, drop := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for _, wanted := range []struct {
		scaled, deleted             appsv1.PersistentVolumeClaimRetentionPolicyType
		afterScaling, afterDeleting string
	}{
		{keep, keep, "data-web-0 data-web-1 data-web-2", "data-web-0 data-web-1 data-web-2"},
		{drop, keep, "data-web-0", "data-web-0"},
		{keep, drop, "data-web-0 data-web-1 data-web-2", ""},
		{drop, drop, "data-web-0", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := start(t)
			looptest.Start(t, c.clients, garbage.Entry)
			c.create(3, func(s *appsv1.StatefulSet) {
				s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: wanted.scaled, WhenDeleted: wanted.deleted}
			})
			c.settle()
			c.edit(func(s *appsv1.StatefulSet) { *s.Spec.Replicas = 1 })
			c.settle()
			c.expect("web-0")
			c.expectClaims(wanted.afterScaling)
			background := metav1.DeletePropagationBackground
			_ = c.server.Kube.AppsV1().StatefulSets("default").Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &background})
			c.settle()
			c.expect("")
			c.expectClaims(wanted.afterDeleting)
		})
	}
}

// A pod may wait for its volume as long as it lives. Its claim must still be deleted with the set.
func TestTheClaimsOfAPodThatDoesNotStartGetTheirOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		c.nodes.Settle = func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }
		c.run()
		c.create(1, func(*appsv1.StatefulSet) {})
		c.settle()
		c.edit(func(s *appsv1.StatefulSet) {
			keep, drop := appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: keep, WhenDeleted: drop}
		})
		c.settle()
		claims := looptest.All[corev1.PersistentVolumeClaim](c.server, "persistentvolumeclaims")
		if len(claims) != 1 || !metav1.IsControlledBy(claims[0], c.set()) {
			t.Errorf("claims %+v", claims)
		}
	})
}

func TestAnOrphanedRevisionIsTheOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(1, func(*appsv1.StatefulSet) {})
		c.settle()
		orphan := metav1.DeletePropagationOrphan
		if err := c.server.Kube.AppsV1().StatefulSets("default").Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		c.settle()
		// What the garbage collector does next, one write after the other.
		for _, r := range looptest.All[appsv1.ControllerRevision](c.server, "controllerrevisions") {
			looptest.Edit(c.server, "controllerrevisions", "default", r.Name, func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil })
		}
		c.settle()
		if all := looptest.All[appsv1.ControllerRevision](c.server, "controllerrevisions"); len(all) != 1 || len(all[0].OwnerReferences) != 0 {
			t.Errorf("revisions %+v", all)
		}
		if n := c.set().Status.CollisionCount; n != nil && *n != 0 {
			t.Errorf("%d collisions", *n)
		}
	})
}

func TestAClaimOfAnotherControllerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		looptest.Start(t, c.clients, garbage.Entry)
		c.create(3, func(*appsv1.StatefulSet) {})
		c.settle()
		other, err := c.server.Kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		c.own("data-web-1", *metav1.NewControllerRef(other, corev1.SchemeGroupVersion.WithKind("ConfigMap")))
		c.edit(func(s *appsv1.StatefulSet) {
			drop := appsv1.DeletePersistentVolumeClaimRetentionPolicyType
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenScaled: drop, WhenDeleted: drop}
		})
		c.settle()
		// A reference that lost its mark is marked again.
		ref := *metav1.NewControllerRef(c.set(), appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		plain := ref
		plain.Controller = nil
		c.own("data-web-0", plain)
		c.edit(func(s *appsv1.StatefulSet) { s.Labels = map[string]string{"changed": "yes"} })
		c.settle()
		claim, err := c.server.Kube.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data-web-0", metav1.GetOptions{})
		if err != nil || !metav1.IsControlledBy(claim, c.set()) || len(claim.OwnerReferences) != 1 {
			t.Errorf("the owners are %+v, %v", claim.OwnerReferences, err)
		}
		c.edit(func(s *appsv1.StatefulSet) { *s.Spec.Replicas = 0 })
		c.settle()
		c.expect("")
		c.expectClaims("data-web-1")
	})
}

func TestAFailedPodIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := prepare(t)
		failed := map[string]bool{}
		c.nodes.Settle = func(p *corev1.Pod) {
			if !failed[p.Name] {
				p.Status.Phase = corev1.PodFailed
			}
			failed[p.Name] = true
		}
		c.run()
		c.create(2, func(*appsv1.StatefulSet) {})
		c.settle()
		c.expect("web-0 web-1")
		if s := c.set().Status; s.ReadyReplicas != 2 {
			t.Errorf("status %+v", s)
		}
		c.event("RecreatingFailedPod", "StatefulSet default/web is recreating failed Pod web-1")
	})
}

// own sets the owners of a claim.
func (c *cluster) own(claim string, owners ...metav1.OwnerReference) {
	c.t.Helper()
	claims := c.server.Kube.CoreV1().PersistentVolumeClaims("default")
	now, err := claims.Get(c.t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	now.OwnerReferences = owners
	if _, err := claims.Update(c.t.Context(), now, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// Users change their minds, loops crash at any write, watches are cut, delayed or expired: in the end the pods of the
// last template exist, with their claims.
func TestWhateverHappensTheSetIsComplete(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, seed) })
		})
	}
}

func converge(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	c := prepare(t)
	lives := looptest.StartLives(t, c.server, rand.New(rand.NewPCG(seed, 2)), statefulset.Entry)
	looptest.Run(t, c.clients, c.nodes)
	c.create(3, func(s *appsv1.StatefulSet) {
		if seed%2 == 0 {
			s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
		}
	})
	replicas, image := 3, "image"
	for range 40 {
		switch random.IntN(8) {
		case 0, 1:
			replicas = random.IntN(7)
			n := int32(replicas)
			c.edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = &n })
		case 2, 3:
			image = fmt.Sprint("image:", random.IntN(4))
			c.image(image)
		case 4:
			if pods := c.pods(); len(pods) > 0 {
				_ = c.server.Kube.CoreV1().Pods("default").Delete(t.Context(), pods[random.IntN(len(pods))].Name, metav1.DeleteOptions{})
			}
		case 5:
			c.server.DropWatches()
		case 6:
			c.server.Compact()
		case 7:
			c.server.HoldWatches(random.IntN(2) == 0)
		}
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
	}
	c.server.HoldWatches(false)
	if lives.Calm() == 0 {
		t.Error("nothing crashed: the test shows nothing")
	}
	time.Sleep(20 * time.Minute)
	var names, images []string
	for i := range replicas {
		names, images = append(names, fmt.Sprint("web-", i)), append(images, image)
	}
	c.expect(strings.Join(names, " "))
	c.expectImages(strings.Join(images, " "))
	if s := c.set().Status; int(s.ReadyReplicas) != replicas || int(s.UpdatedReplicas) != replicas || s.CurrentRevision != s.UpdateRevision {
		t.Errorf("status %+v", s)
	}
}

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
	nodes   *looptest.Nodes
}

func prepare(t *testing.T) *cluster {
	server := looptest.New(t, millracetest.API(t))
	return &cluster{t, server, server.Clients(), &looptest.Nodes{Server: server, Count: 3}}
}

func (c *cluster) run() {
	looptest.Run(c.t, c.clients, append(looptest.Make(c.t, c.clients, statefulset.Entry), c.nodes)...)
}

func start(t *testing.T) *cluster {
	c := prepare(t)
	c.run()
	return c
}

func partition(s *appsv1.StatefulSet, n int32) {
	s.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: &n}
}

func (c *cluster) create(replicas int32, edit func(*appsv1.StatefulSet)) {
	c.t.Helper()
	labels := map[string]string{"app": "web"}
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: looptest.Containers()}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
	edit(s)
	if _, err := c.server.Kube.AppsV1().StatefulSets("default").Create(c.t.Context(), s, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) edit(edit func(*appsv1.StatefulSet)) {
	c.t.Helper()
	looptest.Edit(c.server, "statefulsets", "default", "web", edit)
}

func (c *cluster) image(image string) {
	c.edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = image })
}

func (c *cluster) settle() { time.Sleep(10 * time.Minute); synctest.Wait() }

func (c *cluster) set() *appsv1.StatefulSet {
	return looptest.All[appsv1.StatefulSet](c.server, "statefulsets")[0]
}

func (c *cluster) pods() []*corev1.Pod { return looptest.All[corev1.Pod](c.server, "pods") }

// watchReady checks after each change of a pod that enough pods are ready.
func (c *cluster) watchReady(least int) (stop func()) {
	return looptest.Observe(c.server, func() {
		ready := 0
		for _, p := range c.pods() {
			if p.DeletionTimestamp == nil && looptest.Ready(p) {
				ready++
			}
		}
		if ready < least {
			c.t.Errorf("%d pods are ready", ready)
		}
	})
}

func (c *cluster) expect(names string) {
	c.t.Helper()
	var got []string
	for _, p := range c.pods() {
		got = append(got, p.Name)
	}
	if strings.Join(got, " ") != names {
		c.t.Errorf("pods %v, expected %s", got, names)
	}
}

func (c *cluster) expectImages(images string) {
	c.t.Helper()
	var got []string
	for _, p := range c.pods() {
		got = append(got, p.Spec.Containers[0].Image)
	}
	if strings.Join(got, " ") != images {
		c.t.Errorf("images %v, expected %s", got, images)
	}
}

func (c *cluster) expectClaims(names string) {
	c.t.Helper()
	var got []string
	for _, p := range looptest.All[corev1.PersistentVolumeClaim](c.server, "persistentvolumeclaims") {
		if p.DeletionTimestamp == nil {
			got = append(got, p.Name)
		}
	}
	slices.Sort(got)
	if strings.Join(got, " ") != names {
		c.t.Errorf("claims %v, expected %s", got, names)
	}
}

func (c *cluster) event(reason, message string) {
	c.t.Helper()
	for _, e := range looptest.All[corev1.Event](c.server, "events") {
		if e.Reason == reason && e.Message == message && e.Source.Component == "statefulset-controller" {
			return
		}
	}
	c.t.Errorf("no event %s: %s", reason, message)
}
