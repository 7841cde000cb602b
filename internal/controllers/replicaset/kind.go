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

// Kind is a kind of object that maintains a number of equal pods: ReplicaSets, and kinds that can be converted to them.
type Kind struct {
	schema.GroupVersionKind
	// Loop is the name of the loop.
	Loop string
	// Sets returns an informer of the kind's objects as ReplicaSets, with their own TypeMeta.
	Sets func(c *loop.Clients) *informer.Shared[*appsv1.ReplicaSet]
	// Live reads an object from the API.
	Live func(ctx context.Context, kube kubernetes.Interface, namespace, name string) (metav1.Object, error)
	// WriteStatus writes the status of an object, and returns its new resource version.
	WriteStatus func(ctx context.Context, kube kubernetes.Interface, set *appsv1.ReplicaSet) (version string, err error)
	// Status removes fields that the kind's status does not have; nil removes none.
	Status func(*appsv1.ReplicaSetStatus)
	// Chosen is that of [Options]. It may be nil.
	Chosen func(ratio float64)
}

// Entry is the loop of ReplicaSets, without metrics.
var Entry = Options{}.Entry()

// Options configure the loop of ReplicaSets.
type Options struct {
	// Chosen, if set, is called for each ready pod that is deleted because there are too many, with its age in relation
	// to that of the youngest ready pod.
	Chosen func(ratio float64)
}

// Entry is the loop of ReplicaSets.
func (o Options) Entry() loop.Entry {
	kind := replicaSets
	kind.Chosen = o.Chosen
	return loop.Entry{Name: kind.Loop, Aliases: []string{"replicaset"}, New: kind.New}
}

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
