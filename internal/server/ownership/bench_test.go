package ownership

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/coordination"
	"github.com/millrace/millrace/internal/server/resource/core"
)

// pod is of the usual size: two containers, environment, mounts, probes, volumes.
func pod(kind *resource.Kind) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-7d4b9c-x2x4z", Namespace: "default", Labels: map[string]string{"app": "web", "pod-template-hash": "7d4b9c"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4b9c", UID: "0c1"}},
	}}
	for i := range 3 {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	for i := range 2 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Image: "nginx:1.27", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + i)}}}
		for j := range 6 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", j), Value: "value"})
		}
		for j := range 3 {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: fmt.Sprint("v", j), MountPath: fmt.Sprint("/data/", j)})
		}
		c.Resources.Requests = corev1.ResourceList{"cpu": apiresource.MustParse("100m"), "memory": apiresource.MustParse("128Mi")}
		c.Resources.Limits = c.Resources.Requests
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}}}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	kind.Default(p)
	return p
}

func both(b *testing.B, kind *resource.Kind, view string, old, obj resource.Object) {
	face := kind.Faces[0]
	var w Owners
	d := w.tracker(face, view)
	if _, err := d.library(); err != nil {
		b.Fatal(err)
	}
	entries := obj.GetManagedFields()
	b.Run("quick", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			obj.SetManagedFields(entries)
			if err := w.Track(face, view, old, obj, "manager"); err != nil {
				b.Fatal(err)
			}
		}
	})
	obj.SetManagedFields(entries)
	var before []metav1.ManagedFieldsEntry
	var left any
	if old != nil {
		before, left = old.GetManagedFields(), old
	}
	if _, ok := d.quick.track(left, obj, before, entries, "manager"); !ok {
		b.Error("the quick way was not taken")
	}
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			obj.SetManagedFields(entries)
			if err := d.track(face, old, obj, "manager"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCreatePod(b *testing.B) {
	kind := core.Pods()
	both(b, kind, "", nil, pod(kind))
}

// BenchmarkPodStatus is what a kubelet reports when a container runs.
func BenchmarkPodStatus(b *testing.B) {
	kind, old := core.Pods(), pod(core.Pods())
	old.UID = "u"
	var w Owners
	if err := w.Track(kind.Faces[0], "", nil, old, "controller"); err != nil {
		b.Fatal(err)
	}
	obj := old.DeepCopy()
	obj.Status.Phase = corev1.PodRunning
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady} {
		obj.Status.Conditions = append(obj.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue})
	}
	obj.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c0", Ready: true}, {Name: "c1", Ready: true}}
	obj.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
	both(b, kind, "status", old, obj)
}

func BenchmarkRenewLease(b *testing.B) {
	kind := coordination.Kinds()[0]
	holder, seconds := "node-1", int32(40)
	old := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Namespace: "kube-node-lease", UID: "u",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "0c1"}}}}
	old.Spec.HolderIdentity, old.Spec.LeaseDurationSeconds, old.Spec.RenewTime = &holder, &seconds, &metav1.MicroTime{Time: time.Now()}
	var w Owners
	if err := w.Track(kind.Faces[0], "", nil, old, "manager"); err != nil {
		b.Fatal(err)
	}
	obj := old.DeepCopy()
	obj.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(10 * time.Second)}
	both(b, kind, "", old, obj)
}
