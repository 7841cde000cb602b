package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	mine  = "compare-schedulers=node" // the label of the nodes
	zones = 3
)

// world is the namespace and the nodes that the schedulers use.
type world struct {
	kube      *kubernetes.Clientset
	namespace string
	nodes     int
}

// open creates the namespace.
func (w *world) open(ctx context.Context) error {
	kube := w.kube.CoreV1()
	ns, err := kube.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "compare-schedulers-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	w.namespace = ns.Name
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := kube.ServiceAccounts(w.namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	_, err = kube.Services(w.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "served"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"served": "yes"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	return err
}

// grow creates nodes until there are count of them.
func (w *world) grow(ctx context.Context, count int) error {
	first := w.nodes
	w.nodes = max(first, count)
	return each(ctx, count-first, func(ctx context.Context, i int) error { return w.node(ctx, first+i) })
}

func (w *world) node(ctx context.Context, i int) error {
	name := fmt.Sprintf("compare-%05d", i)
	nodes := w.kube.CoreV1().Nodes()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n, err := nodes.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones), "compare-schedulers": "node",
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	if err != nil || len(n.Spec.Taints) == 0 {
		return err
	}
	n.Spec.Taints = nil // without a kubelet, no controller removes the taint of a node that is not ready
	_, err = nodes.Update(ctx, n, metav1.UpdateOptions{})
	return err
}

// fill creates pods that wait for a scheduler.
func (w *world) fill(ctx context.Context, name string, count int) error {
	k := kindsOfPods[name]
	if k.first != nil {
		if err := k.first(ctx, w); err != nil {
			return err
		}
	}
	return each(ctx, count, func(ctx context.Context, i int) error {
		p := w.pod(fmt.Sprintf("%s-%06d", name, i), map[string]string{"kind": name})
		if k.before != nil {
			if err := k.before(ctx, w, p.Name); err != nil {
				return err
			}
		}
		k.pod(p)
		_, err := w.kube.CoreV1().Pods(w.namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

func (w *world) pod(name string, labels map[string]string) *corev1.Pod {
	yes := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeSelector:                 map[string]string{"compare-schedulers": "node"},
			AutomountServiceAccountToken: &yes,
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}}}},
		},
	}
}

// empty deletes the pods and their events.
func (w *world) empty(ctx context.Context) error {
	now := int64(0)
	err := remove(func() error {
		return w.kube.CoreV1().Pods(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	})
	if err != nil {
		return err
	}
	if err := w.dropVolumes(ctx); err != nil {
		return err
	}
	return remove(func() error {
		return w.kube.CoreV1().Events(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
}

// dropVolumes deletes claims and volumes. It removes finalizers first, because no controller does.
func (w *world) dropVolumes(ctx context.Context) error {
	kube := w.kube.CoreV1()
	none, mine := []byte(`{"metadata":{"finalizers":null}}`), metav1.ListOptions{LabelSelector: "compare-schedulers=volume"}
	volumes, err := kube.PersistentVolumes().List(ctx, mine)
	if err != nil || len(volumes.Items) == 0 {
		return err
	}
	err = each(ctx, len(volumes.Items), func(ctx context.Context, i int) error {
		v := &volumes.Items[i]
		if _, err := kube.PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
			return err
		}
		_, err := kube.PersistentVolumeClaims(w.namespace).Patch(ctx, v.Spec.ClaimRef.Name, types.MergePatchType, none, metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	err = remove(func() error {
		return kube.PersistentVolumeClaims(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
	if err != nil {
		return err
	}
	return remove(func() error { return kube.PersistentVolumes().DeleteCollection(ctx, metav1.DeleteOptions{}, mine) })
}

// remove deletes many objects. A slow server may need several requests, because each request has a timeout.
func remove(all func() error) (err error) {
	for range 10 {
		if err = all(); err == nil {
			break
		}
	}
	return err
}

// clear deletes everything.
func (w *world) clear(ctx context.Context) error {
	if w.namespace == "" {
		return nil
	}
	if err := w.empty(ctx); err != nil {
		return err
	}
	err := remove(func() error {
		return w.kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: mine})
	})
	if err != nil {
		return err
	}
	return w.kube.CoreV1().Namespaces().Delete(ctx, w.namespace, metav1.DeleteOptions{})
}

// each calls do for 0 to count-1, several at a time.
func each(ctx context.Context, count int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range count {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
