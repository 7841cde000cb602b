package millracetest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
)

// A Job whose pods need a device each, of which there are two: they run in turns, where the devices are, and nothing is
// left of their claims.
func TestPodsWithClaimTemplatesRunWhereTheirDevicesAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := millracetest.Clientset(t, millracetest.Start(t, millrace.Options{Listen: "none", Nodes: 3}))
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute) // until the nodes have registered
		nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		ok(err)
		where := nodes.Items[1].Name
		_, err = kube.ResourceV1().DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, metav1.CreateOptions{})
		ok(err)
		_, err = kube.ResourceV1().ResourceSlices().Create(t.Context(), &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
			Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: &where, Pool: resourcev1.ResourcePool{Name: where, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
			},
		}, metav1.CreateOptions{})
		ok(err)
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "one-gpu"}}
		template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu"}}}
		_, err = kube.ResourceV1().ResourceClaimTemplates("default").Create(t.Context(), template, metav1.CreateOptions{})
		ok(err)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: batchv1.JobSpec{Parallelism: new(int32(5)), Completions: new(int32(5))}}
		job.Spec.Template.Spec = corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			Containers:     []corev1.Container{{Name: "main", Image: "registry.example/train:1", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template.Name}},
		}
		job.Spec.Template.Annotations = map[string]string{"hollow.millrace.dev/run-for": "10m"}
		_, err = kube.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{})
		ok(err)

		for _, step := range []string{"running [2], claims 5", "running [2], claims 3", "running [1], claims 1", "running [0], claims 0"} {
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			pods, err := kube.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
			ok(err)
			claims, err := kube.ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
			ok(err)
			running := 0
			for i := range pods.Items {
				if p := &pods.Items[i]; p.Status.Phase == corev1.PodRunning {
					running++
					if p.Spec.NodeName != where {
						t.Errorf("%s runs on %s, the devices are on %s", p.Name, p.Spec.NodeName, where)
					}
				}
			}
			if got := fmt.Sprintf("running [%d], claims %d", running, len(claims.Items)); got != step {
				t.Errorf("%s, want %s", got, step)
			}
			time.Sleep(5 * time.Minute)
		}
	})
}
