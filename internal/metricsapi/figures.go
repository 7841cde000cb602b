package metricsapi

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// measured is the window over which usage is averaged.
const measured = 15 * time.Second

// usage returns the usage of CPU and memory. ok is false if one is not known.
func usage(c *cpu, m *memory) (corev1.ResourceList, bool) {
	if c == nil || c.NanoCores == nil || m == nil || m.WorkingSet == nil {
		return nil, false
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(*c.NanoCores), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(*m.WorkingSet), resource.BinarySI),
	}, true
}

// selection is the namespace and the selectors of a list.
type selection struct {
	namespace string
	options   metav1.ListOptions
}

// nodes returns the usage of the selected nodes.
func (s *Server) nodes(ctx context.Context, which selection) (*metricsv1beta1.NodeMetricsList, error) {
	list, err := s.Kube.CoreV1().Nodes().List(ctx, which.options)
	if err != nil {
		return nil, err
	}
	if which.options.LabelSelector == "" && which.options.FieldSelector == "" {
		s.forget(list.Items)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	got := s.askAll(ctx, names)
	all := &metricsv1beta1.NodeMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "NodeMetricsList"},
		Items:    []metricsv1beta1.NodeMetrics{},
	}
	for i := range list.Items {
		if m, ok := ofNode(&list.Items[i], got[list.Items[i].Name]); ok {
			all.Items = append(all.Items, m)
		}
	}
	return all, nil
}

// node returns the usage of one node.
func (s *Server) node(ctx context.Context, name string) (*metricsv1beta1.NodeMetrics, error) {
	node, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		if m, ok := ofNode(node, s.askNode(ctx, name)); ok {
			m.TypeMeta = metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "NodeMetrics"}
			return &m, nil
		}
	}
	return nil, apierrors.NewNotFound(metrics.Resource("nodemetrics"), name)
}

func ofNode(node *corev1.Node, got *summary) (metricsv1beta1.NodeMetrics, bool) {
	if got == nil {
		return metricsv1beta1.NodeMetrics{}, false
	}
	use, ok := usage(got.Node.CPU, got.Node.Memory)
	if !ok {
		return metricsv1beta1.NodeMetrics{}, false
	}
	return metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, CreationTimestamp: metav1.Now()},
		Timestamp:  metav1.Time{Time: got.Node.CPU.Time}, Window: metav1.Duration{Duration: measured}, Usage: use,
	}, true
}

// pods returns the usage of the selected pods. Only their nodes are read.
func (s *Server) pods(ctx context.Context, which selection) (*metricsv1beta1.PodMetricsList, error) {
	which.options.ResourceVersion = "0"
	list, err := s.Kube.CoreV1().Pods(which.namespace).List(ctx, which.options)
	if err != nil {
		return nil, err
	}
	all := &metricsv1beta1.PodMetricsList{
		TypeMeta: metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "PodMetricsList"},
		Items:    s.ofPods(ctx, list.Items),
	}
	return all, nil
}

// pod returns the usage of one pod.
func (s *Server) pod(ctx context.Context, namespace, name string) (*metricsv1beta1.PodMetrics, error) {
	pod, err := s.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		if all := s.ofPods(ctx, []corev1.Pod{*pod}); len(all) == 1 {
			all[0].TypeMeta = metav1.TypeMeta{APIVersion: metricsv1beta1.SchemeGroupVersion.String(), Kind: "PodMetrics"}
			return &all[0], nil
		}
	}
	return nil, apierrors.NewNotFound(metrics.Resource("podmetrics"), namespace+"/"+name)
}

func (s *Server) ofPods(ctx context.Context, pods []corev1.Pod) []metricsv1beta1.PodMetrics {
	wanted := map[types.UID]*corev1.Pod{}
	var nodes []string
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName != "" && p.Status.Phase == corev1.PodRunning {
			wanted[p.UID] = p
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	all := []metricsv1beta1.PodMetrics{}
	for _, got := range s.askAll(ctx, slices.Compact(nodes)) {
		for i := range got.Pods {
			if p := wanted[types.UID(got.Pods[i].Ref.UID)]; p != nil {
				if m, ok := got.ofPod(i, p); ok {
					all = append(all, m)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b metricsv1beta1.PodMetrics) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return all
}

// ofPod returns the usage of a pod. ok is false if not all of its containers have been measured.
func (s *summary) ofPod(i int, pod *corev1.Pod) (metricsv1beta1.PodMetrics, bool) {
	m := metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, CreationTimestamp: metav1.Now()},
		Window:     metav1.Duration{Duration: measured},
	}
	for _, c := range s.Pods[i].Containers {
		use, ok := usage(c.CPU, c.Memory)
		if !ok {
			return m, false
		}
		if m.Timestamp.IsZero() || c.CPU.Time.Before(m.Timestamp.Time) {
			m.Timestamp = metav1.Time{Time: c.CPU.Time}
		}
		m.Containers = append(m.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: use})
	}
	return m, len(m.Containers) > 0
}
