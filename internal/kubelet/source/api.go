package source

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
)

// Server watches the pods that the API server has for a node. It is a loop.Runner, and keeps its pods while the server
// cannot be reached.
type Server struct {
	store     *delta.UndeltaStore[*corev1.Pod]
	reflector *informer.Reflector[*corev1.Pod]
}

// NewServer returns a source that passes its pods, mirror pods included, to push.
func NewServer(kube kubernetes.Interface, node string, streaming bool, log *slog.Logger, push func([]*corev1.Pod)) *Server {
	store := delta.NewUndeltaStore(push, informer.StoreOptions[*corev1.Pod]{})
	return &Server{store: store, reflector: informer.NewReflector(informer.For(kube.CoreV1().Pods("")), store, informer.Options[*corev1.Pod]{
		Name: "kubelet", FieldSelector: "spec.nodeName=" + node, DropManagedFields: true, DisableStreaming: !streaming, Logger: log,
	})}
}

// Run watches the server until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.reflector.Run(ctx) }

// Pod returns a pod as the API server has it.
func (s *Server) Pod(key Key) (*corev1.Pod, bool) { return s.store.Lookup(key) }
