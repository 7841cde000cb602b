package deployment_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/deployment"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/replicaset"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/millracetest"
)

func TestDeploymentBecomesReadyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(12)
		d := c.complete(12)
		if d.Status.ReadyReplicas != 12 || d.Status.ObservedGeneration != 1 || *d.Status.TerminatingReplicas != 0 {
			t.Errorf("status %+v", d.Status)
		}
		if d.Annotations["deployment.kubernetes.io/revision"] != "1" {
			t.Errorf("annotations %v", d.Annotations)
		}
		set := c.set("image:1")
		c.condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
		c.condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet %q has successfully progressed.", set.Name))
		c.event("ScalingReplicaSet", "Scaled up replica set "+set.Name+" from 0 to 12")
		hash := set.Labels["pod-template-hash"]
		if hash == "" || set.Name != "web-"+hash || set.Spec.Selector.MatchLabels["pod-template-hash"] != hash {
			t.Errorf("replica set %s with labels %v", set.Name, set.Labels)
		}
	})
}

func TestAnEnormousSurgeRollsLikeAnyOther(t *testing.T) {
	for _, surge := range []intstr.IntOrString{intstr.FromInt32(math.MaxInt32), intstr.FromString("2147483647%")} {
		for _, replicas := range []int32{0, 7} {
			synctest.Test(t, func(t *testing.T) {
				c := start(t)
				c.create(replicas, func(d *appsv1.Deployment) {
					none := intstr.FromInt32(0)
					d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &none}
				})
				c.complete(int(replicas))
				stop := c.watchBounds(2*replicas, replicas)
				c.image("image:2")
				c.complete(int(replicas))
				stop()
			})
		}
	}
}

func TestRollingUpdateStaysInItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(10, func(d *appsv1.Deployment) {
			surge, unavailable := intstr.FromString("25%"), intstr.FromString("25%")
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
		})
		c.complete(10)
		stop := c.watchBounds(13, 8)
		c.image("image:2")
		c.complete(10)
		stop()
		if n := len(looptest.All[appsv1.ReplicaSet](c.server, "replicasets")); n != 2 {
			t.Errorf("%d replica sets", n)
		}
		if set := c.set("image:2"); set.Annotations["deployment.kubernetes.io/revision"] != "2" {
			t.Errorf("annotations %v", set.Annotations)
		}
	})
}

func TestRecreateNeverMixesTemplates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(5, func(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType })
		c.complete(5)
		c.image("image:2")
		for range 200 {
			images := map[string]bool{}
			for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
				images[p.Spec.Containers[0].Image] = true
			}
			if len(images) > 1 {
				t.Fatal("pods of two templates at once")
			}
			time.Sleep(time.Millisecond)
		}
		c.complete(5)
	})
}

func TestOldTemplateComesBackUnderANewRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(3)
		c.complete(3)
		first := c.set("image:1").Name
		c.image("image:2")
		c.complete(3)
		c.image("image:1")
		c.complete(3)
		set := c.set("image:1")
		if set.Name != first || set.Annotations["deployment.kubernetes.io/revision"] != "3" || set.Annotations["deployment.kubernetes.io/revision-history"] != "1" {
			t.Errorf("%s, annotations %v", set.Name, set.Annotations)
		}
		c.edit(func(d *appsv1.Deployment) {
			metav1.SetMetaDataAnnotation(&d.ObjectMeta, "deprecated.deployment.rollback.to", "2")
		})
		d := c.complete(3)
		if d.Spec.Template.Spec.Containers[0].Image != "image:2" || d.Annotations["deprecated.deployment.rollback.to"] != "" {
			t.Errorf("template %v after the rollback", d.Spec.Template.Spec.Containers)
		}
		c.event("DeploymentRollback", `Rolled back deployment "web" to revision 2`)
		for wanted, say := range map[string][2]string{
			"4": {"DeploymentRollbackTemplateUnchanged", `The rollback revision contains the same template as current deployment "web"`},
			"9": {"DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."},
		} {
			c.edit(func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.ObjectMeta, "deprecated.deployment.rollback.to", wanted)
			})
			c.complete(3)
			c.event(say[0], say[1])
		}
	})
}

func TestPausedDeploymentScalesInProportion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(10, func(d *appsv1.Deployment) {
			surge, unavailable := intstr.FromInt32(3), intstr.FromInt32(2)
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable}
		})
		c.complete(10)
		c.nodes.Unready = func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == "image:2" }
		c.image("image:2") // gets stuck with 8 old and 5 new ones
		time.Sleep(time.Minute)
		if a, b := *c.set("image:1").Spec.Replicas, *c.set("image:2").Spec.Replicas; a != 8 || b != 5 {
			t.Fatalf("sizes %d and %d", a, b)
		}
		c.edit(func(d *appsv1.Deployment) { *d.Spec.Replicas = 15 })
		time.Sleep(time.Minute)
		if a, b := *c.set("image:1").Spec.Replicas, *c.set("image:2").Spec.Replicas; a != 11 || b != 7 {
			t.Errorf("sizes %d and %d", a, b)
		}
	})
}

func TestAStuckRolloutExceedsItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.nodes.Unready = func(*corev1.Pod) bool { return true }
		c.create(2)
		time.Sleep(590 * time.Second)
		set := c.set("image:1")
		c.condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", fmt.Sprintf("ReplicaSet %q is progressing.", set.Name))
		c.condition(appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
		time.Sleep(15 * time.Second)
		c.condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", fmt.Sprintf("ReplicaSet %q has timed out progressing.", set.Name))
	})
}

func TestPauseAndResumeAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(2)
		c.complete(2)
		c.edit(func(d *appsv1.Deployment) { d.Spec.Paused = true })
		c.image("image:2")
		time.Sleep(time.Minute)
		c.condition(appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
		if c.find("image:2") != nil {
			t.Error("a paused deployment rolls out")
		}
		c.edit(func(d *appsv1.Deployment) { d.Spec.Paused = false })
		c.complete(2)
	})
}

func TestTheRevisionHistoryLimitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(1, func(d *appsv1.Deployment) { limit := int32(2); d.Spec.RevisionHistoryLimit = &limit })
		for i := range 6 {
			c.image(fmt.Sprint("image:", i+2))
			c.complete(1)
		}
		var images []string
		for _, set := range looptest.All[appsv1.ReplicaSet](c.server, "replicasets") {
			images = append(images, set.Spec.Template.Spec.Containers[0].Image)
		}
		slices.Sort(images)
		if got := strings.Join(images, " "); got != "image:5 image:6 image:7" {
			t.Errorf("replica sets of %s", got)
		}
	})
}

func TestAForeignReplicaSetWithTheNewNameIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(0)
		c.complete(0)
		taken := c.set("image:1").Name
		sets := c.clients.Kube.AppsV1().ReplicaSets("default")
		orphan := metav1.DeletePropagationBackground
		if err := c.clients.Kube.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // otherwise the loop, which has not seen the deletion yet, would make the set again
		if err := sets.Delete(t.Context(), taken, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		stranger := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: taken, Labels: map[string]string{"app": "other"}},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}},
					Spec:       corev1.PodSpec{Containers: looptest.Containers()},
				},
			},
		}
		if _, err := sets.Create(t.Context(), stranger, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		c.create(0)
		if d := c.complete(0); d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 {
			t.Errorf("collisions %v", d.Status.CollisionCount)
		}
	})
}

func TestReplicaSetWithoutOwnerIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t)
		c.create(3)
		c.complete(3)
		looptest.Edit(c.server, "replicasets", "default", c.set("image:1").Name, func(set *appsv1.ReplicaSet) { set.OwnerReferences = nil })
		time.Sleep(time.Minute)
		if set := c.set("image:1"); metav1.GetControllerOf(set) == nil {
			t.Error("not adopted")
		}
		if n := len(looptest.All[appsv1.ReplicaSet](c.server, "replicasets")); n != 1 {
			t.Errorf("%d replica sets", n)
		}
	})
}

type cluster struct {
	t       *testing.T
	server  *looptest.Server
	clients *loop.Clients
	nodes   *looptest.Nodes
}

var entries = []loop.Entry{deployment.Entry, replicaset.Entry}

func prepare(t *testing.T) *cluster {
	server := looptest.New(t, millracetest.API(t))
	return &cluster{t, server, server.Clients(), &looptest.Nodes{Server: server, Count: 3}}
}

// start runs the loops for Deployments and ReplicaSets, and nodes.
func start(t *testing.T) *cluster {
	c := prepare(t)
	looptest.Run(t, c.clients, append(looptest.Make(t, c.clients, entries...), c.nodes)...)
	return c
}

func (c *cluster) create(replicas int32, edits ...func(*appsv1.Deployment)) {
	c.t.Helper()
	labels := map[string]string{"app": "web"}
	deadline, history := int32(600), int32(10)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
			},
			ProgressDeadlineSeconds: &deadline,
			RevisionHistoryLimit:    &history,
		},
	}
	for _, edit := range edits {
		edit(d)
	}
	if _, err := c.clients.Kube.AppsV1().Deployments("default").Create(c.t.Context(), d, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// edit changes the Deployment through the API, as a user.
func (c *cluster) edit(edit func(*appsv1.Deployment)) {
	c.t.Helper()
	deployments := c.clients.Kube.AppsV1().Deployments("default")
	for range 100 {
		d, err := deployments.Get(c.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		edit(d)
		if _, err = deployments.Update(c.t.Context(), d, metav1.UpdateOptions{}); err == nil {
			return
		}
	}
	c.t.Fatal("the deployment changes all the time")
}

func (c *cluster) image(image string) {
	c.edit(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

func (c *cluster) deployment() *appsv1.Deployment {
	return looptest.All[appsv1.Deployment](c.server, "deployments")[0]
}

// complete gives the loops time, and checks that the Deployment is complete, with exactly these pods.
func (c *cluster) complete(replicas int) *appsv1.Deployment {
	c.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	d := c.deployment()
	n := int32(replicas)
	if s := d.Status; s.Replicas != n || s.UpdatedReplicas != n || s.AvailableReplicas != n || s.UnavailableReplicas != 0 || s.ObservedGeneration != d.Generation {
		c.t.Errorf("status %+v of generation %d", d.Status, d.Generation)
	}
	image := d.Spec.Template.Spec.Containers[0].Image
	set := c.set(image)
	for _, other := range looptest.All[appsv1.ReplicaSet](c.server, "replicasets") {
		if other.UID != set.UID && *other.Spec.Replicas != 0 {
			c.t.Errorf("replica set %s still has size %d", other.Name, *other.Spec.Replicas)
		}
	}
	pods := looptest.All[corev1.Pod](c.server, "pods")
	if len(pods) != replicas {
		c.t.Errorf("%d pods, expected %d", len(pods), replicas)
	}
	for _, p := range pods {
		if ref := metav1.GetControllerOf(p); ref == nil || ref.UID != set.UID || p.Spec.Containers[0].Image != image {
			c.t.Errorf("pod %s is not of the current replica set", p.Name)
		}
	}
	return d
}

// find returns the replica set of an image.
func (c *cluster) find(image string) *appsv1.ReplicaSet {
	c.t.Helper()
	var found *appsv1.ReplicaSet
	for _, set := range looptest.All[appsv1.ReplicaSet](c.server, "replicasets") {
		if containers := set.Spec.Template.Spec.Containers; len(containers) > 0 && containers[0].Image == image {
			if found != nil {
				c.t.Errorf("two replica sets of %s", image)
			}
			found = set
		}
	}
	return found
}

func (c *cluster) set(image string) *appsv1.ReplicaSet {
	c.t.Helper()
	set := c.find(image)
	if set == nil {
		c.t.Fatalf("no replica set of %s", image)
	}
	return set
}

// watchBounds checks, after each change of a pod, that the requested sizes and the ready pods stay within the limits.
func (c *cluster) watchBounds(most, least int32) (stop func()) {
	return looptest.Observe(c.server, func() {
		var sizes, ready int32
		for _, set := range looptest.All[appsv1.ReplicaSet](c.server, "replicasets") {
			sizes += *set.Spec.Replicas
		}
		for _, p := range looptest.All[corev1.Pod](c.server, "pods") {
			if p.DeletionTimestamp == nil && looptest.Ready(p) {
				ready++
			}
		}
		if sizes > most || ready < least {
			c.t.Errorf("sizes %d, at most %d; ready %d, at least %d", sizes, most, ready, least)
		}
	})
}

func (c *cluster) condition(kind appsv1.DeploymentConditionType, state corev1.ConditionStatus, reason, message string) {
	c.t.Helper()
	synctest.Wait()
	for _, condition := range c.deployment().Status.Conditions {
		if condition.Type != kind {
			continue
		}
		if condition.Status != state || condition.Reason != reason || condition.Message != message {
			c.t.Errorf("condition %+v", condition)
		}
		return
	}
	c.t.Errorf("no condition %s", kind)
}

func (c *cluster) event(reason, message string) {
	c.t.Helper()
	var all []string
	for _, e := range looptest.All[corev1.Event](c.server, "events") {
		if e.Reason == reason && e.Message == message {
			return
		}
		all = append(all, e.Reason+": "+e.Message)
	}
	c.t.Errorf("no event %s: %s among %q", reason, message, all)
}
