// Package rootca publishes the API server's CA certificates in each namespace.
//
// Guarantees: a namespace that is not being deleted has a ConfigMap kube-root-ca.crt with these certificates and
// nothing else. If it is changed or deleted, it is restored.
package rootca

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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
	kube       kubernetes.Interface
	data       map[string]string
	namespaces *informer.Shared[*corev1.Namespace]
	configMaps *informer.Shared[*corev1.ConfigMap]
	writes     loop.Writes
}

// new returns the loop. Its keys are namespaces.
func (o Options) new(c *loop.Clients) loop.Runner {
	named := informer.For(c.Kube.CoreV1().ConfigMaps(""))
	r := &controller{
		Options:    o,
		kube:       c.Kube,
		data:       map[string]string{file: string(o.Certificates)},
		namespaces: loop.Informer(c, informer.For(c.Kube.CoreV1().Namespaces())),
		// Only ConfigMaps of this name are watched.
		configMaps: informer.Share(c.Informers, named, informer.Options[*corev1.ConfigMap]{
			Name: name, Logger: c.Log, FieldSelector: "metadata.name=" + configMap, DropManagedFields: true,
		}),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 2, Sync: r.sync,
		Watches: []loop.Watch{
			loop.Self(r.namespaces),
			loop.Mapped(r.configMaps, func(cm *corev1.ConfigMap) []loop.Key { return []loop.Key{{Name: cm.Namespace}} }),
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
	if err := r.writes.Settled(ctx, key); err != nil {
		return err
	}
	ns, ok := r.namespaces.Lookup(key)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		r.writes.Forget(key)
		return nil
	}
	old, ok := r.configMaps.Get(ns.Name, configMap)
	if ok && maps.Equal(old.Data, r.data) && len(old.BinaryData) == 0 && old.Annotations[noteKey] == noteMessage {
		return nil
	}
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMap, Namespace: ns.Name}}
	if ok {
		wanted.ObjectMeta = *old.ObjectMeta.DeepCopy()
	}
	wanted.Data = r.data
	metav1.SetMetaDataAnnotation(&wanted.ObjectMeta, noteKey, noteMessage)
	return r.write(ctx, key, wanted, ok)
}

func (r *controller) write(ctx context.Context, key loop.Key, wanted *corev1.ConfigMap, exists bool) error {
	configMaps := r.kube.CoreV1().ConfigMaps(wanted.Namespace)
	var written *corev1.ConfigMap
	var err error
	if exists {
		written, err = configMaps.Update(ctx, wanted, metav1.UpdateOptions{})
	} else {
		written, err = configMaps.Create(ctx, wanted, metav1.CreateOptions{})
	}
	if apierrors.IsAlreadyExists(err) {
		return loop.ErrBehind // made by another process; sync again when the cache shows it
	}
	if err != nil {
		return fmt.Errorf("write %s in %s: %w", configMap, wanted.Namespace, err)
	}
	r.writes.Wrote(key, r.configMaps, written.ResourceVersion)
	return nil
}
