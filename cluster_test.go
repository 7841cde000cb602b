package millrace_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
)

func TestEventsEndWhenTheOptionsSay(t *testing.T) {
	for ttl, ends := range map[time.Duration]bool{0: true, 2 * time.Hour: false, -1: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			k := clientset(t, start(t, millrace.Options{Listen: "none", Controllers: []string{}, NoScheduler: true, EventTTL: ttl}))
			event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
			if _, err := k.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour + time.Minute)
			_, err := k.CoreV1().Events("default").Get(t.Context(), "e", metav1.GetOptions{})
			if apierrors.IsNotFound(err) != ends {
				t.Errorf("after an hour with a time to live of %v: %v", ttl, err)
			}
		})
	}
}

func TestNodePortsAreOfTheGivenRange(t *testing.T) {
	k := clientset(t, start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, NodePorts: millrace.PortRange{First: 8000, Last: 8000}}))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
	made, err := k.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil || made.Spec.Ports[0].NodePort != 8000 {
		t.Errorf("%v, %v", made, err)
	}
}

func TestPodsStayOnFailingNodesAsLongAsTheOptionsSay(t *testing.T) {
	o := millrace.Options{Controllers: []string{}, NoScheduler: true}
	o.Admission.NotReadySeconds, o.Admission.UnreachableSeconds = new(int64(0)), new(int64(7))
	k := clientset(t, start(t, o))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	made, err := k.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, toleration := range made.Spec.Tolerations {
		got[toleration.Key] = *toleration.TolerationSeconds
	}
	if len(got) != 2 || got[corev1.TaintNodeNotReady] != 0 || got[corev1.TaintNodeUnreachable] != 7 {
		t.Errorf("%v", got)
	}
}

// TestExtendedResourcesAreDevices: the claim of a pod is made, used and deleted with it, and what is left of an earlier
// attempt is no hindrance.
func TestExtendedResourcesAreDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clientset(t, start(t, millrace.Options{Listen: "none", Nodes: 1}))
		devices, pods := k.ResourceV1(), k.CoreV1().Pods("default")
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(devices.DeviceClasses().Create(t.Context(), &resourcev1.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")},
		}, metav1.CreateOptions{}))
		must(devices.ResourceSlices().Create(t.Context(), &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", AllNodes: new(true), Pool: resourcev1.ResourcePool{Name: "all", Generation: 1, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		}}, metav1.CreateOptions{}))
		create := func(name string, gates ...corev1.PodSchedulingGate) *corev1.Pod {
			t.Helper()
			pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
				SchedulingGates: gates, TerminationGracePeriodSeconds: new(int64(1)),
				Containers: []corev1.Container{{Name: "main", Image: "i", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}}},
			}}, metav1.CreateOptions{})
			must(pod, err)
			return pod
		}
		// claimOf returns the claim that the status of a running pod names.
		claimOf := func(name string) *resourcev1.ResourceClaim {
			t.Helper()
			pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
			must(pod, err)
			s := pod.Status.ExtendedResourceClaimStatus
			if s == nil || pod.Status.Phase != corev1.PodRunning {
				t.Fatalf("pod %s is %s, its claim is %v: %v", name, pod.Status.Phase, s, pod.Status.Conditions)
			}
			if want := []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "container-0-request-0"}}; !reflect.DeepEqual(s.RequestMappings, want) {
				t.Errorf("pod %s has %v, want %v", name, s.RequestMappings, want)
			}
			c, err := devices.ResourceClaims("default").Get(t.Context(), s.ResourceClaimName, metav1.GetOptions{})
			must(c, err)
			if c.Status.Allocation == nil || len(c.Status.ReservedFor) != 1 || c.Status.ReservedFor[0].UID != pod.UID {
				t.Errorf("the claim of pod %s is %+v", name, c.Status)
			}
			return c
		}
		create("first")
		time.Sleep(time.Minute)
		first := claimOf("first")

		second := create("second", corev1.PodSchedulingGate{Name: "example.com/wait"})
		left := &resourcev1.ResourceClaim{Spec: first.Spec, ObjectMeta: metav1.ObjectMeta{Name: "left", Annotations: first.Annotations, Finalizers: first.Finalizers, OwnerReferences: first.OwnerReferences}}
		left.OwnerReferences[0].Name, left.OwnerReferences[0].UID = second.Name, second.UID
		must(devices.ResourceClaims("default").Create(t.Context(), left, metav1.CreateOptions{}))
		time.Sleep(time.Second) // until the scheduler knows it, as it does of an earlier attempt
		second.Spec.SchedulingGates = nil
		must(pods.Update(t.Context(), second, metav1.UpdateOptions{}))
		time.Sleep(2 * time.Minute)
		if claimOf("second").Name == "left" {
			t.Error("the claim of an earlier attempt is used")
		}
		if err := pods.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		all, err := devices.ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
		must(all, err)
		if len(all.Items) != 1 || all.Items[0].Name != claimOf("second").Name {
			t.Errorf("there are %d claims", len(all.Items))
		}
	})
}
