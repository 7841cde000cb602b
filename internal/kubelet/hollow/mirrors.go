package hollow

import (
	"context"

	"github.com/millrace/millrace/cause"
	"github.com/millrace/millrace/internal/kubelet/source"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/loop"
)

// changed is called for each pod of the cluster that has changed.
func (n *Nodes) changed(by cause.Change) {
	key := worker.Key{Namespace: by.Namespace, Name: by.Name}
	if pod, ok := n.pods.Lookup(key); ok && source.Mirror(pod) {
		n.mirrors.Add(key)
		return
	}
	n.crew.Written(by)
}

// removeMirror removes a pod that claims to be the mirror pod of a static pod. A hollow node has no static pods, so
// nobody runs what the mirror pod shows. Left alone, it would wait for its end for ever when it is deleted, and its
// namespace with it.
func (n *Nodes) removeMirror(ctx context.Context, key loop.Key) (loop.Result, error) {
	pod, ok := n.pods.Lookup(key)
	if !ok || !n.has(pod.Spec.NodeName) || !source.Mirror(pod) {
		return loop.Result{}, nil
	}
	if n.options.As != nil {
		ctx = n.options.As(ctx, pod.Spec.NodeName)
	}
	return loop.Result{}, n.reporter.Remove(ctx, pod)
}
