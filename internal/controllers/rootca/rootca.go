// Package rootca publishes the API server's CA certificates in each namespace.
//
// Guarantees: a namespace that is not being deleted has a ConfigMap kube-root-ca.crt with these certificates and
// nothing else. If it is changed or deleted, it is restored.
package rootca

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name        = "root-ca-certificate-publisher-controller"
	configMap   = "kube-root-ca.crt"
	file        = "ca.crt"
	noteKey     = "kubernetes.io/description"
	noteMessage = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Options configure the loop.
type Options struct {
	// Certificates are in PEM. Without any there is nothing to publish, and the loop does not run.
	Certificates []byte
	// Synced, if set, is called after each sync of a namespace.
	Synced func(err error, took time.Duration)
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	if o.Synced == nil {
		o.Synced = func(error, time.Duration) {}
	}
	return loop.Entry{
		Name: name, Aliases: []string{"root-ca-cert-publisher"},
		New: func(c *loop.Clients) (loop.Runner, error) {
			if len(o.Certificates) == 0 {
				return nil, nil
			}
			return o.new(c), nil
		},
	}
}

type controller struct {
	Options
	data       map[string]string
	namespaces *informer.Shared[*corev1.Namespace]
	writer     *loop.Writer[*corev1.ConfigMap]
}

// new returns the loop. Its keys are namespaces.
func (o Options) new(c *loop.Clients) loop.Runner {
	// Only ConfigMaps of this name are watched.
	configMaps := informer.Share(c.Informers, informer.For(c.Kube.CoreV1().ConfigMaps("")), informer.Options[*corev1.ConfigMap]{
		Name: name, Logger: c.Log, FieldSelector: "metadata.name=" + configMap, DropManagedFields: true,
	})
	r := &controller{
		Options:    o,
		data:       map[string]string{file: string(o.Certificates)},
		namespaces: loop.Informer(c, informer.For(c.Kube.CoreV1().Namespaces())),
		writer:     loop.NewWriter(informer.ResourceOf[*corev1.ConfigMap](c.Kube.CoreV1().RESTClient(), "configmaps"), configMaps, ""),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 2, Sync: r.sync,
		Watches: []loop.Watch{
			loop.Self(r.namespaces),
			loop.Mapped(configMaps, func(cm *corev1.ConfigMap) []loop.Key { return []loop.Key{{Name: cm.Namespace}} }),
		},
	}
}

func (r *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	began := time.Now()
	err := r.publish(ctx, key)
	r.Synced(err, time.Since(began))
	return loop.Result{}, err
}

// publish creates or restores the ConfigMap of a namespace.
func (r *controller) publish(ctx context.Context, key loop.Key) error {
	ns, ok := r.namespaces.Lookup(key)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return nil
	}
	_, err := r.writer.Ensure(ctx, loop.Key{Namespace: ns.Name, Name: configMap}, func(cm *corev1.ConfigMap, _ bool) error {
		cm.Data, cm.BinaryData = r.data, nil
		metav1.SetMetaDataAnnotation(&cm.ObjectMeta, noteKey, noteMessage)
		return nil
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return loop.ErrBehind // made by another process; sync again when the cache shows it
	case err != nil:
		return fmt.Errorf("write %s in %s: %w", configMap, ns.Name, err)
	}
	return nil
}
