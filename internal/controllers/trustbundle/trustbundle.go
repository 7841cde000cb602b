// Package trustbundle publishes the API server's CA certificates as a ClusterTrustBundle of the signer
// kubernetes.io/kube-apiserver-serving.
//
// Guarantees: there is one ClusterTrustBundle of this signer, with these certificates and named after them. If it is
// changed or deleted it is restored, and others of the signer are deleted.
package trustbundle

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/loop"
)

const (
	name   = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
	signer = "kubernetes.io/kube-apiserver-serving"
)

// Options configure the loop.
type Options struct {
	// Certificates are in PEM. Without any there is nothing to publish, and the loop does not run.
	Certificates []byte
	// Synced, if set, is called after each sync.
	Synced func(err error, took time.Duration)
}

// Entry is this loop among the others.
func (o Options) Entry() loop.Entry {
	if o.Synced == nil {
		o.Synced = func(error, time.Duration) {}
	}
	return loop.Entry{Name: name, New: func(c *loop.Clients) (loop.Runner, error) {
		if len(o.Certificates) == 0 {
			return nil, nil
		}
		return o.new(c), nil
	}}
}

type controller struct {
	Options
	kube    kubernetes.Interface
	wanted  *certificatesv1.ClusterTrustBundle
	bundles *informer.Shared[*certificatesv1.ClusterTrustBundle]
	writes  loop.Writes
}

var all = loop.Key{Name: "all"} // all bundles of the signer are handled together

func (o Options) new(c *loop.Clients) loop.Runner {
	sum := sha256.Sum256(o.Certificates)
	p := &controller{
		Options: o,

		kube: c.Kube,
		wanted: &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12])},
			Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: string(o.Certificates)},
		},
		bundles: loop.Informer(c, informer.For(c.Kube.CertificatesV1().ClusterTrustBundles()), loop.Selection{Fields: "spec.signerName=" + signer}),
	}
	return &loop.Loop{
		Name: name, Clients: c, Sync: p.sync, Start: []loop.Key{all},
		Watches: []loop.Watch{loop.Mapped(p.bundles, func(*certificatesv1.ClusterTrustBundle) []loop.Key { return []loop.Key{all} })},
	}
}

func (c *controller) sync(ctx context.Context, key loop.Key) (loop.Result, error) {
	began := time.Now()
	err := c.keepOne(ctx, key)
	c.Synced(err, time.Since(began))
	return loop.Result{}, err
}

// keepOne publishes the bundle, and deletes others of the signer.
func (c *controller) keepOne(ctx context.Context, key loop.Key) error {
	if err := c.writes.Settled(ctx, key); err != nil {
		return err
	}
	if err := c.publish(ctx, key); err != nil {
		return err
	}
	var failed error
	for b := range c.bundles.List() {
		if b.Name == c.wanted.Name {
			continue
		}
		err := c.kube.CertificatesV1().ClusterTrustBundles().Delete(ctx, b.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(b.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = errors.Join(failed, fmt.Errorf("delete the trust bundle %s: %w", b.Name, err))
		}
	}
	return failed
}

// publish creates or restores the bundle.
func (c *controller) publish(ctx context.Context, key loop.Key) error {
	bundles := c.kube.CertificatesV1().ClusterTrustBundles()
	present, ok := c.bundles.Lookup(loop.Key{Name: c.wanted.Name})
	var written *certificatesv1.ClusterTrustBundle
	var err error
	switch {
	case !ok:
		written, err = bundles.Create(ctx, c.wanted, metav1.CreateOptions{})
	case present.Spec.TrustBundle != c.wanted.Spec.TrustBundle:
		changed := present.DeepCopy()
		changed.Spec.TrustBundle = c.wanted.Spec.TrustBundle
		written, err = bundles.Update(ctx, changed, metav1.UpdateOptions{})
	default:
		return nil
	}
	if apierrors.IsAlreadyExists(err) {
		return loop.ErrBehind // made by another process; sync again when the cache shows it
	}
	if err != nil {
		return fmt.Errorf("publish the trust bundle %s: %w", c.wanted.Name, err)
	}
	c.writes.Wrote(key, c.bundles, written.ResourceVersion)
	return nil
}
