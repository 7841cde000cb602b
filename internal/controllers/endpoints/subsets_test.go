package endpoints

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/millrace/millrace/internal/controllers/podview"
)

func example() *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP: "10.1.0.1", Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{
			{Name: "http", TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP},
			{Name: "admin", TargetPort: intstr.FromString("admin"), Protocol: corev1.ProtocolTCP},
		},
	}}
	s.Name = "web"
	return s
}

func pod(i int, ready bool, ports ...podview.Port) *podview.Pod {
	p := &podview.Pod{Phase: corev1.PodRunning, Ready: ready, IPs: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}, Ports: ports}
	p.UID = types.UID(fmt.Sprint(i))
	return p
}

func TestPortsOfTheSamePodsAreOneSubset(t *testing.T) {
	admin := podview.Port{Name: "admin", Number: 9000, Protocol: corev1.ProtocolTCP}
	all := subsets(example(), []*podview.Pod{pod(1, true, admin), pod(2, false, admin)})
	if len(all) != 1 || len(all[0].Ports) != 2 || len(all[0].Addresses) != 1 || len(all[0].NotReadyAddresses) != 1 {
		t.Errorf("%+v", all)
	}
	all = subsets(example(), []*podview.Pod{pod(1, true, admin), pod(2, true)})
	if len(all) != 2 {
		t.Errorf("pods with different ports make %d subsets", len(all))
	}
}

func TestReadyAddressesComeFirstWhenThereAreTooMany(t *testing.T) {
	var pods []*podview.Pod
	for i := range 1200 {
		pods = append(pods, pod(i, i%3 > 0))
	}
	e := wantedFor(example(), nil, subsets(example(), pods))
	if ready, rest := len(e.Subsets[0].Addresses), len(e.Subsets[0].NotReadyAddresses); ready != 800 || rest != 200 {
		t.Errorf("%d ready and %d other addresses", ready, rest)
	}
	if e.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
		t.Errorf("annotations %v", e.Annotations)
	}
}
