// Package replication maintains the number of pods that ReplicationControllers ask for. It converts them for the loop
// of package replicaset, because they differ from ReplicaSets only in the form of the selector. That package's
// guarantees apply.
package replication

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/internal/controllers/replicaset"
	"github.com/millrace/millrace/loop"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: kind.Loop, Aliases: []string{"replicationcontroller"}, Source: "replication-controller", New: kind.New}

var kind = replicaset.Kind{
	GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	Loop:             "replicationcontroller-controller",
	Sets:             sets,
	Live: func(ctx context.Context, kube kubernetes.Interface, namespace, name string) (metav1.Object, error) {
		return kube.CoreV1().ReplicationControllers(namespace).Get(ctx, name, metav1.GetOptions{})
	},
	WriteStatus: func(ctx context.Context, kube kubernetes.Interface, set *appsv1.ReplicaSet) (string, error) {
		written, err := kube.CoreV1().ReplicationControllers(set.Namespace).UpdateStatus(ctx, hide(set), metav1.UpdateOptions{})
		if err != nil {
			return "", err
		}
		return written.ResourceVersion, nil
	},
	Status: func(s *appsv1.ReplicaSetStatus) { s.TerminatingReplicas = nil },
}

func sets(c *loop.Clients) *informer.Shared[*appsv1.ReplicaSet] {
	return informer.ShareProjection(c.Informers, informer.For(c.Kube.CoreV1().ReplicationControllers("")), show, informer.Options[*appsv1.ReplicaSet]{
		Name:              "replicationcontrollers",
		Logger:            c.Log,
		DropManagedFields: true,
		DisableStreaming:  watchlist.DoesClientNotSupportWatchListSemantics(c.Kube),
	})
}
