package kubelet

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/loop"
)

const hashAnnotation = "kubernetes.io/config.hash"

// mirrors keeps mirror pods for static pods.
type mirrors struct {
	kubelet *Kubelet
	loop    *loop.Loop

	mu     sync.Mutex // guards status
	status map[loop.Key]*corev1.PodStatus
}

func newMirrors(k *Kubelet) *mirrors {
	m := &mirrors{kubelet: k, status: map[loop.Key]*corev1.PodStatus{}}
	m.loop = &loop.Loop{Name: "mirrors", Clients: k.options.Clients, Workers: 2, Sync: m.sync}
	return m
}

func (m *mirrors) Run(ctx context.Context) error { return m.loop.Run(ctx) }

func (m *mirrors) report(pod *corev1.Pod, status *corev1.PodStatus) {
	key := loop.Key{Namespace: pod.Namespace, Name: pod.Name}
	m.mu.Lock()
	m.status[key] = status
	m.mu.Unlock()
	m.loop.Add(key)
}

// sync makes the mirror pod of a static pod, replaces it or removes it.
func (m *mirrors) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	static, wanted := m.kubelet.config.Pod(key)
	wanted = wanted && m.kubelet.config.Static(static)
	mirror, shown := m.kubelet.api.Pod(key)
	if shown && !source.Mirror(mirror) {
		return loop.Result{}, nil // the name belongs to an ordinary pod
	}
	if shown && (!wanted || mirror.DeletionTimestamp != nil || mirror.Annotations[corev1.MirrorPodAnnotationKey] != static.Annotations[hashAnnotation]) {
		return loop.Result{}, m.kubelet.reporter.Remove(ctx, mirror)
	}
	if !wanted {
		m.mu.Lock()
		delete(m.status, key)
		m.mu.Unlock()
		return loop.Result{}, nil
	}
	if !shown {
		return loop.Result{}, m.create(ctx, static)
	}
	m.mu.Lock()
	status := m.status[key]
	m.mu.Unlock()
	if status != nil && !sameStatus(status, &mirror.Status) {
		m.kubelet.reporter.Report(ctx, mirror, status, false)
	}
	return loop.Result{}, nil
}

func (m *mirrors) create(ctx context.Context, static *corev1.Pod) error {
	mirror := static.DeepCopy()
	mirror.UID, mirror.Status = "", corev1.PodStatus{}
	mirror.Annotations[corev1.MirrorPodAnnotationKey] = static.Annotations[hashAnnotation]
	kube := m.kubelet.kube()
	if node, err := kube.CoreV1().Nodes().Get(ctx, m.kubelet.options.Name, metav1.GetOptions{}); err == nil {
		yes := true
		mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &yes}}
	}
	_, err := kube.CoreV1().Pods(mirror.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // the watch will show it
	}
	return err
}
