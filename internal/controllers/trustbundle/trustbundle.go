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
	wanted  string // the name of the bundle
	bundles *informer.Shared[*certificatesv1.ClusterTrustBundle]
	writer  *loop.Writer[*certificatesv1.ClusterTrustBundle]
}

var all = loop.Key{Name: "all"} // all bundles of the signer are handled together

func (o Options) new(c *loop.Clients) loop.Runner {
	sum := sha256.Sum256(o.Certificates)
	p := &controller{
		Options: o,
		wanted:  fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12]),
		bundles: loop.Informer(c, informer.For(c.Kube.CertificatesV1().ClusterTrustBundles()), loop.Selection{Fields: "spec.signerName=" + signer}),
	}
	p.writer = loop.NewWriter(informer.ResourceOf[*certificatesv1.ClusterTrustBundle](c.Kube.CertificatesV1().RESTClient(), "clustertrustbundles"), p.bundles, "")
	return &loop.Loop{
		Name: name, Clients: c, Sync: p.sync, Start: []loop.Key{all},
		Watches: []loop.Watch{loop.Mapped(p.bundles, func(*certificatesv1.ClusterTrustBundle) []loop.Key { return []loop.Key{all} })},
	}
}

func (c *controller) sync(ctx context.Context, _ loop.Key) (loop.Result, error) {
	began := time.Now()
	err := c.keepOne(ctx)
	c.Synced(err, time.Since(began))
	return loop.Result{}, err
}

// keepOne publishes the bundle, and deletes others of the signer.
func (c *controller) keepOne(ctx context.Context) error {
	if err := c.publish(ctx); err != nil {
		return err
	}
	var failed error
	for b := range c.bundles.List() {
		if b.Name == c.wanted {
			continue
		}
		err := c.writer.Delete(ctx, b)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			failed = errors.Join(failed, fmt.Errorf("delete the trust bundle %s: %w", b.Name, err))
		}
	}
	return failed
}

// publish creates or restores the bundle.
func (c *controller) publish(ctx context.Context) error {
	_, err := c.writer.Ensure(ctx, loop.Key{Name: c.wanted}, func(b *certificatesv1.ClusterTrustBundle, _ bool) error {
		b.Spec = certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: string(c.Certificates)}
		return nil
	})
	switch {
	case apierrors.IsAlreadyExists(err):
		return loop.ErrBehind // made by another process; sync again when the cache shows it
	case err != nil:
		return fmt.Errorf("publish the trust bundle %s: %w", c.wanted, err)
	}
	return nil
}
