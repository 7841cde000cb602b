package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/millrace/millrace/loop"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// bindings makes the fake server handle bindings as a real one does.
func bindings(kube *fake.Clientset) {
	kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding := action.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
		object, err := kube.Tracker().Get(pods, action.GetNamespace(), binding.Name)
		if err != nil {
			return true, nil, err
		}
		pod := object.(*corev1.Pod).DeepCopy()
		pod.Spec.NodeName = binding.Target.Name
		err = kube.Tracker().Update(pods, pod, pod.Namespace)
		return true, binding, err
	})
}

func TestPodsArePlacedInTheRackThatTheyName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := fake.NewClientset()
		bindings(kube)
		clients := loop.ClientsFor(kube)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- loop.Run(ctx, clients, rackScheduler(clients)) }()
		synctest.Wait() // the fake server loses events between a list and a watch
		for _, rack := range []string{"a", "b"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + rack, Labels: map[string]string{"rack": rack}}}
			node.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
			if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pod := func(pod, rack, scheduler string) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod, UID: types.UID(pod), Annotations: map[string]string{"rack": rack}}}
			p.Spec.SchedulerName, p.Spec.Containers = scheduler, []corev1.Container{{Name: "main"}}
			if _, err := kube.CoreV1().Pods("ns").Create(ctx, p, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pod("for-a", "a", name)
		pod("for-b", "b", name)
		pod("for-c", "c", name)
		pod("for-others", "a", "default-scheduler")
		time.Sleep(5 * time.Second)
		for pod, node := range map[string]string{"for-a": "node-a", "for-b": "node-b", "for-c": "", "for-others": ""} {
			p, err := kube.CoreV1().Pods("ns").Get(ctx, pod, metav1.GetOptions{})
			if err != nil || p.Spec.NodeName != node {
				t.Errorf("%s is on %q, expected %q, %v", pod, p.Spec.NodeName, node, err)
			}
		}
		told := false
		events, _ := kube.CoreV1().Events("ns").List(ctx, metav1.ListOptions{})
		for _, e := range events.Items {
			told = told || e.InvolvedObject.Name == "for-c" && e.Source.Component == name && strings.Contains(e.Message, "0/2 nodes are available: 2 node(s) were in another rack.")
		}
		if !told {
			t.Errorf("nobody told why for-c has no node: %v", events.Items)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
