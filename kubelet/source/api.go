package source

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
)

// Server follows the pods that an API server has for a node. It is a loop.Runner, and keeps what it has seen while the
// server is away.
type Server struct {
	store     *delta.UndeltaStore[*corev1.Pod]
	reflector *informer.Reflector[*corev1.Pod]
}

// NewServer makes a source that hands its pods to push, mirror pods among them.
func NewServer(kube kubernetes.Interface, node string, streaming bool, log *slog.Logger, push func([]*corev1.Pod)) *Server {
	store := delta.NewUndeltaStore(push, informer.StoreOptions[*corev1.Pod]{})
	return &Server{store: store, reflector: informer.NewReflector(informer.For(kube.CoreV1().Pods("")), store, informer.Options[*corev1.Pod]{
		Name: "kubelet", FieldSelector: "spec.nodeName=" + node, DropManagedFields: true, DisableStreaming: !streaming, Logger: log,
	})}
}

// Run follows the server until ctx ends.
func (s *Server) Run(ctx context.Context) error { return s.reflector.Run(ctx) }

// Pod is a pod as the server has it.
func (s *Server) Pod(key Key) (*corev1.Pod, bool) { return s.store.Lookup(key) }
