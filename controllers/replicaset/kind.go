package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

// A Kind is a kind of object that keeps pods of one template running: replica
// sets, and whatever can be shown as a replica set.
type Kind struct {
	schema.GroupVersionKind
	// Loop is the name of its loop.
	Loop string
	// Sets shows all objects of the kind as replica sets, with the type of the kind itself.
	Sets func(c *loop.Clients) *informer.Shared[*appsv1.ReplicaSet]
	// Live asks the API for an object.
	Live func(ctx context.Context, kube kubernetes.Interface, namespace, name string) (metav1.Object, error)
	// WriteStatus writes the status of what is shown as set, and returns the version that it has then.
	WriteStatus func(ctx context.Context, kube kubernetes.Interface, set *appsv1.ReplicaSet) (version string, err error)
	// Status leaves out what the kind's own status does not have; nil means that it has all.
	Status func(*appsv1.ReplicaSetStatus)
}

// Entry is the loop of replica sets among the others.
var Entry = loop.Entry{Name: replicaSets.Loop, Aliases: []string{"replicaset"}, New: replicaSets.New}

var replicaSets = Kind{
	GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	Loop:             "replicaset-controller",
	Sets: func(c *loop.Clients) *informer.Shared[*appsv1.ReplicaSet] {
		return loop.Informer(c, informer.For(c.Kube.AppsV1().ReplicaSets("")))
	},
	Live: func(ctx context.Context, kube kubernetes.Interface, namespace, name string) (metav1.Object, error) {
		return kube.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
	},
	WriteStatus: func(ctx context.Context, kube kubernetes.Interface, set *appsv1.ReplicaSet) (string, error) {
		written, err := kube.AppsV1().ReplicaSets(set.Namespace).UpdateStatus(ctx, set, metav1.UpdateOptions{})
		if err != nil {
			return "", err
		}
		return written.ResourceVersion, nil
	},
}
