package furnish

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/informer"
	"github.com/millrace/millrace/informer/delta"
)

const (
	bundleKind  = "clustertrustbundle" // one bundle by name
	signerKind  = "signer"             // all bundles of a signer that match a selector
	bundleParts = "\x00"               // separates the signer from the selector
	anchors     = "anchors"
)

// bundle returns the certificates for a ClusterTrustBundle projection.
func (f *Furnisher) bundle(ctx context.Context, pod *corev1.Pod, s *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	maybe := s.Optional != nil && *s.Optional
	key := object{kind: bundleKind}
	switch {
	case s.Name != nil:
		key.name = *s.Name
	case s.SignerName != nil && s.LabelSelector != nil:
		selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
		if err != nil {
			return nil, err
		}
		key = object{kind: signerKind, name: *s.SignerName + bundleParts + selector.String()}
	case !maybe: // without a selector nothing is selected
		return nil, errNoAnchors
	default:
		return nil, nil
	}
	data, err := f.objects.get(ctx, pod, key)
	switch {
	case apierrors.IsNotFound(err) && maybe:
		return nil, nil
	case apierrors.IsNotFound(err) && s.Name != nil:
		return nil, fmt.Errorf("clustertrustbundle %q not found", *s.Name)
	case apierrors.IsNotFound(err):
		return nil, errNoAnchors
	}
	return data[anchors], err
}

var errNoAnchors = errors.New("combination of signer name and label selector matched zero trust anchors")

// watchBundles watches the trust bundles of a key until ctx ends.
func (o *objects) watchBundles(ctx context.Context, key object, e *entry) error {
	only := informer.Options[*certificatesv1.ClusterTrustBundle]{
		Name: "kubelet", FieldSelector: "metadata.name=" + key.name, DropManagedFields: true, DisableStreaming: !o.streaming, Logger: o.log,
	}
	if key.kind == signerKind {
		signer, selector, _ := strings.Cut(key.name, bundleParts)
		only.FieldSelector, only.LabelSelector = "spec.signerName="+signer, selector
	}
	store := delta.NewUndeltaStore(func(all []*certificatesv1.ClusterTrustBundle) { o.take(e, merge(all)) },
		informer.StoreOptions[*certificatesv1.ClusterTrustBundle]{})
	return informer.NewReflector(informer.For(o.kube.CertificatesV1().ClusterTrustBundles()), store, only).Run(ctx)
}

// merge joins the certificates of bundles without duplicates, in a stable order.
func merge(all []*certificatesv1.ClusterTrustBundle) map[string][]byte {
	var ders [][]byte
	for _, b := range all {
		for block, rest := pem.Decode([]byte(b.Spec.TrustBundle)); block != nil; block, rest = pem.Decode(rest) {
			if _, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
				ders = append(ders, block.Bytes)
			}
		}
	}
	if len(ders) == 0 {
		return nil
	}
	slices.SortFunc(ders, bytes.Compare)
	var text bytes.Buffer
	for _, der := range slices.CompactFunc(ders, bytes.Equal) {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a buffer never fails
	}
	return map[string][]byte{anchors: text.Bytes()}
}
