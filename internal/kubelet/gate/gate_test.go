package gate_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/kubelet/gate"
)

func resources(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func onPort(ip string, number int32) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: number, HostIP: ip, Protocol: corev1.ProtocolTCP}},
	}}}}
}

func asking(pairs ...string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Requests: resources(pairs...)},
	}}}}
}

// inSidecar makes a pod's container a sidecar.
func inSidecar(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers, nil
	return pod
}

// claiming says in a pod's status that it gets a resource by a resource claim.
func claiming(pod *corev1.Pod, resource string) *corev1.Pod {
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "c", RequestMappings: []corev1.ContainerExtendedResourceRequest{{ResourceName: resource, RequestName: "r"}},
	}
	return pod
}

func TestPodsAreRejectedForResourcesInUse(t *testing.T) {
	room := gate.RoomOf(resources("cpu", "2", "memory", "4Gi", "pods", "3", "example.com/device", "1"))
	for _, c := range []struct {
		name         string
		first, other *corev1.Pod
		reason       string
	}{
		{"room for both", asking("cpu", "1"), asking("cpu", "1"), ""},
		{"no cpu", asking("cpu", "1"), asking("cpu", "1500m"), "OutOfcpu"},
		{"no device", asking("example.com/device", "1"), asking("example.com/device", "1"), "OutOfexample.com/device"},
		{"a device that the node knows nothing of", asking(), asking("example.com/other", "1"), ""},
		{"a device by a claim", asking("example.com/device", "1"), claiming(asking("example.com/device", "2"), "example.com/device"), ""},
		{"no device, and another one by a claim", asking("example.com/device", "1"), claiming(asking("example.com/device", "1"), "example.com/other"), "OutOfexample.com/device"},
		{"no huge pages", asking(), asking("hugepages-2Mi", "2Mi"), "OutOfhugepages-2Mi"},
		{"the same port", onPort("", 80), onPort("", 80), "NodePorts"},
		{"the same port of another address", onPort("192.0.2.1", 80), onPort("192.0.2.2", 80), ""},
		{"the same port of all addresses", onPort("192.0.2.1", 80), onPort("", 80), "NodePorts"},
		{"a sidecar's port", inSidecar(onPort("", 80)), onPort("", 80), "NodePorts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var taken gate.Taken
			first, other := gate.ClaimOf(c.first), gate.ClaimOf(c.other)
			if r := taken.Refuse(&first, &room); r != nil {
				t.Fatalf("the first is refused: %v", r)
			}
			taken.Add(&first)
			r := taken.Refuse(&other, &room)
			if got := ""; r != nil && r.Reason != c.reason || r == nil && got != c.reason {
				t.Errorf("refused with %v, want %q", r, c.reason)
			}
			taken.Remove(&first)
			taken.Add(&other)
			taken.Remove(&other)
			if r := taken.Refuse(&first, &room); r != nil {
				t.Errorf("refused when all have gone: %v", r)
			}
		})
	}
}

func TestARejectionIsConfirmedByTheServer(t *testing.T) {
	cached := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	labelled := cached.DeepCopy()
	labelled.Labels = map[string]string{"disk": "fast"}
	pod := asking()
	pod.Spec.NodeSelector = labelled.Labels
	for _, c := range []struct {
		what    string
		server  []runtime.Object
		refused bool
	}{
		{"the label was set just now", []runtime.Object{labelled}, false},
		{"the label was never set", []runtime.Object{cached}, true},
		{"the server does not answer", nil, true},
	} {
		if r := gate.Rejection(t.Context(), fake.NewClientset(c.server...), pod, cached); (r != nil) != c.refused {
			t.Errorf("%s: %v", c.what, r)
		}
	}
}

func TestNoScheduleTaintsAreIgnored(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
	for effect, refused := range map[corev1.TaintEffect]bool{
		corev1.TaintEffectNoSchedule: false, corev1.TaintEffectPreferNoSchedule: false, corev1.TaintEffectNoExecute: true,
	} {
		node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: effect}}
		if r := gate.RejectionFor(asking(), node); (r != nil) != refused {
			t.Errorf("%s: %v", effect, r)
		}
	}
}

func TestPodsForAnotherOperatingSystemAreRejected(t *testing.T) {
	for _, c := range []struct {
		system, field, label, want string
	}{
		{"linux", "", "", ""},
		{"linux", "linux", "linux", ""},
		{"linux", "windows", "", "PodOSNotSupported"},
		{"linux", "", "windows", "PodOSSelectorNodeLabelDoesNotMatch"},
		{"", "windows", "windows", ""},
	} {
		pod := asking()
		if c.field != "" {
			pod.Spec.OS = &corev1.PodOS{Name: corev1.OSName(c.field)}
		}
		if c.label != "" {
			pod.Labels = map[string]string{corev1.LabelOSStable: c.label}
		}
		got := ""
		if r := gate.WrongSystem(pod, c.system); r != nil {
			got = r.Reason
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
