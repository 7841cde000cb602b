// Package serviceaccount makes the default service account of each namespace.
//
// Guarantees: a namespace that is not being deleted has a service account named default. If it is deleted, it is made
// again.
package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name    = "serviceaccount-controller"
	account = "default"
)

// Entry is this loop among the others.
var Entry = loop.Entry{Name: name, Aliases: []string{"serviceaccount"}, New: New}

type controller struct {
	kube       kubernetes.Interface
	namespaces *informer.Shared[*corev1.Namespace]
	accounts   *informer.Shared[*corev1.ServiceAccount]
}

// New returns the loop. Its keys are namespaces.
func New(c *loop.Clients) (loop.Runner, error) {
	s := &controller{
		kube:       c.Kube,
		namespaces: loop.Informer(c, informer.For(c.Kube.CoreV1().Namespaces())),
		accounts:   loop.Informer(c, informer.For(c.Kube.CoreV1().ServiceAccounts(""))),
	}
	return &loop.Loop{
		Name: name, Clients: c, Workers: 2, Sync: s.sync,
		Watches: []loop.Watch{
			loop.Self(s.namespaces),
			loop.Mapped(s.accounts, func(a *corev1.ServiceAccount) []loop.Key {
				if a.Name != account {
					return nil
				}
				return []loop.Key{{Name: a.Namespace}}
			}),
		},
	}, nil
}

func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	ns, ok := c.namespaces.Lookup(key)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return loop.Result{}, nil
	}
	if c.accounts.Has(loop.Key{Namespace: ns.Name, Name: account}) {
		return loop.Result{}, nil
	}
	fresh := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account, Namespace: ns.Name}}
	_, err := c.kube.CoreV1().ServiceAccounts(ns.Name).Create(ctx, fresh, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return loop.Result{}, fmt.Errorf("create service account %s in %s: %w", account, ns.Name, err)
	}
	return loop.Result{}, nil
}
