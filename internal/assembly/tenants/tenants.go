// Package tenants is what lets a cluster run others: the kind that declares them, and the loop that makes them.
package tenants

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/address"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/assembly/loops"
	"github.com/millrace/millrace/internal/planes"
	"github.com/millrace/millrace/internal/sleep"
	"github.com/millrace/millrace/loop"
)

// Tenants is the part.
type Tenants struct {
	planes  *planes.Planes
	address *address.Address
	loops   *loops.Loops
}

// New makes the part. Without planes it does nothing.
func New(p *planes.Planes, a *address.Address, l *loops.Loops) *Tenants {
	return &Tenants{planes: p, address: a, loops: l}
}

// Start has the API serve the kind, and the loop run together with the others.
func (t *Tenants) Start(ctx context.Context, l *assembly.List) error {
	if t.planes == nil {
		return nil
	}
	clients, err := t.loops.Clients()
	if err != nil {
		return err
	}
	l.Opened("control planes", t.planes.Close)
	if err := t.define(ctx, clients); err != nil {
		return fmt.Errorf("the kind of control planes: %w", err)
	}
	running, err := t.planes.Loop(clients)
	if err != nil {
		return err
	}
	t.loops.Add(identity.As(identity.Planes, running))
	l.Run("sleep of control planes", t.planes.Run)
	return nil
}

// define makes or renews the definition, and the namespace of kubeconfigs, as the administrator.
func (t *Tenants) define(ctx context.Context, clients *loop.Clients) error {
	client, err := apiextensions.NewForConfig(t.address.Config())
	if err != nil {
		return err
	}
	definitions, wanted := client.CustomResourceDefinitions(), planes.Definition()
	there, err := definitions.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = definitions.Create(ctx, wanted, metav1.CreateOptions{FieldManager: planes.Program})
	case err == nil:
		there.Spec = wanted.Spec
		_, err = definitions.Update(ctx, there, metav1.UpdateOptions{FieldManager: planes.Program})
	}
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: planes.Namespace}}
	if _, err := clients.Kube.CoreV1().Namespaces().Create(identity.AsAdministrator(ctx), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return t.served(ctx, clients)
}

// servedTime bounds how long the API may take to serve a new kind, which it looks at every servedEvery.
const (
	servedTime  = 10 * time.Second
	servedEvery = 2 * time.Millisecond
)

// served waits until the API serves the kind.
func (t *Tenants) served(ctx context.Context, clients *loop.Clients) error {
	ctx, cancel := context.WithTimeout(ctx, servedTime)
	defer cancel()
	for {
		_, err := clients.Dynamic.Resource(planes.GVR).List(identity.AsAdministrator(ctx), metav1.ListOptions{Limit: 1})
		if err == nil || !sleep.For(ctx, servedEvery) {
			return err
		}
	}
}
