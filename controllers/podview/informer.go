package podview

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/controllers/owned"
	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/watch"
)

// Informer is the one informer of pod views that all loops of a process share.
func Informer(c *loop.Clients) *informer.Shared[*Pod] {
	pods := informer.Share(c.Informers, informer.Source[*Pod](source{c.Kube}), informer.Options[*Pod]{
		Name:      "pods",
		Logger:    c.Log,
		Hot:       -1,
		Transform: new(pool).share,
	})
	_ = pods.AddIndex(byNode, nodeOf) // there already if another loop asked first
	return owned.Index(pods)
}

// source lists and watches pods and hands on their views, so that a pod is
// garbage as soon as its view is made. It is comparable: two sources of one
// client are the same source.
type source struct{ kube kubernetes.Interface }

func (s source) pods() informer.Source[*corev1.Pod] { return informer.For(s.kube.CoreV1().Pods("")) }

func (s source) List(ctx context.Context, options metav1.ListOptions) ([]*Pod, metav1.ListMeta, error) {
	pods, meta, err := s.pods().List(ctx, options)
	if err != nil {
		return nil, meta, err
	}
	views := make([]*Pod, len(pods))
	for i, pod := range pods {
		views[i] = Of(pod)
	}
	return views, meta, nil
}

func (s source) Watch(ctx context.Context, options metav1.ListOptions) (watch.Stream[*Pod], error) {
	pods, err := s.pods().Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return viewing{pods}, nil
}

// viewing is a stream of pods seen as views.
type viewing struct{ pods watch.Stream[*corev1.Pod] }

func (v viewing) Next(ctx context.Context) (watch.Event[*Pod], error) {
	event, err := v.pods.Next(ctx)
	if err != nil {
		return watch.Event[*Pod]{}, err
	}
	out := watch.Event[*Pod]{Type: event.Type, Err: event.Err}
	if event.Object != nil {
		out.Object = Of(event.Object)
	}
	return out, nil
}

func (v viewing) Stop() { v.pods.Stop() }
