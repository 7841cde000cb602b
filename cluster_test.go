package millrace_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/server/allocation"
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
	k := clientset(t, start(t, millrace.Options{Controllers: []string{}, NoScheduler: true, NodePorts: allocation.PortRange{First: 8000, Last: 8000}}))
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
