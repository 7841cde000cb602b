package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	minTokenSeconds  = 10 * 60
	maxTokenSeconds  = 1 << 32
	clashingPaths    = "conflicting duplicate paths"
	oneVolumePerPart = "may not specify more than 1 volume type per source"
)

func (x *examiner) projected(p fieldPath, v *corev1.ProjectedVolumeSource) {
	x.mode(p, "defaultMode", v.DefaultMode)
	var paths seen[string]
	list := p.child("sources")
	for i := range v.Sources {
		x.projection(list.item(i), p, &v.Sources[i], &paths)
	}
}

// projection validates one source of a projected volume.
func (x *examiner) projection(p, whole fieldPath, v *corev1.VolumeProjection, paths *seen[string]) {
	one := &choice{findings: &x.findings, of: &p, excess: oneVolumePerPart}
	if s := v.Secret; s != nil {
		if c, first := one.open("secret"); first {
			x.requireText(c, "name", s.Name)
			x.projectedKeys(c, whole, s.Name, s.Items, paths)
		}
	}
	if s := v.ConfigMap; s != nil {
		if c, first := one.open("configMap"); first {
			x.requireText(c, "name", s.Name)
			x.projectedKeys(c, whole, s.Name, s.Items, paths)
		}
	}
	if s := v.DownwardAPI; s != nil {
		if c, first := one.open("downwardAPI"); first {
			x.downwardFiles(c, s.Items)
			for i := range s.Items {
				x.newPath(whole, s.Items[i].Path, s.Items[i].Path, paths)
			}
		}
	}
	if s := v.ServiceAccountToken; s != nil {
		if c, first := one.open("serviceAccountToken"); first {
			x.token(c, whole, s)
		}
	}
	if s := v.ClusterTrustBundle; s != nil {
		if c, first := one.open("clusterTrustBundle"); first {
			x.trustBundle(c, whole, s, paths)
		}
	}
	if s := v.PodCertificate; s != nil {
		if c, first := one.open("podCertificate"); first {
			x.podCertificate(c, whole, s, paths)
		}
	}
}

func (x *examiner) projectedKeys(p, whole fieldPath, name string, items []corev1.KeyToPath, paths *seen[string]) {
	list := p.child("items")
	for i := range items {
		x.keyToPath(list.item(i), &items[i])
		x.newPath(whole, name, items[i].Path, paths)
	}
}

func (x *examiner) newPath(p fieldPath, value, path string, paths *seen[string]) {
	if path != "" && !paths.add(path) {
		x.invalid(p, value, clashingPaths)
	}
}

func (x *examiner) token(p, whole fieldPath, t *corev1.ServiceAccountTokenProjection) {
	if s := t.ExpirationSeconds; s != nil {
		c := p.child("expirationSeconds")
		if *s < minTokenSeconds {
			x.invalid(c, *s, "may not specify a duration less than 10 minutes")
		}
		if *s > maxTokenSeconds {
			x.invalid(c, *s, "may not specify a duration larger than 2^32 seconds")
		}
	}
	if x.requireText(whole, "path", t.Path) {
		x.filePath(whole.child("path"), t.Path)
	}
}

func (x *examiner) trustBundle(p, whole fieldPath, t *corev1.ClusterTrustBundleProjection, paths *seen[string]) {
	byName, bySigner := t.Name != nil, t.SignerName != nil
	switch {
	case byName && bySigner:
		x.invalid(p, "", "only one of name and signerName may be used")
	case byName:
		x.bundleName(p, *t.Name)
		if t.LabelSelector != nil {
			x.invalid(p.child("labelSelector"), "", "labelSelector must be unset if name is specified")
		}
	case bySigner:
		if *t.SignerName == "" {
			x.required(p.child("signerName"), "must be a valid signer name")
		}
		x.errs = append(x.errs, check.Signer(*t.SignerName, x.path(p.child("signerName")))...)
		x.labelSelector(p, "labelSelector", t.LabelSelector)
	default:
		x.required(p, "either name or signerName must be specified")
	}
	if x.requireText(p, "path", t.Path) {
		c := p.child("path")
		x.filePath(c, t.Path)
		x.newPath(whole, t.Path, t.Path, paths)
	}
}

// bundleName validates the name of a bundle. With a colon it is one of a signer's, whose name it begins with.
func (x *examiner) bundleName(p fieldPath, name string) {
	if name == "" {
		x.required(p.child("name"), "must be a valid object name")
	}
	for _, msg := range check.TrustBundleName(name, check.SignerOf(name)) {
		x.invalid(p.child("name"), name, "not a valid clustertrustbundlename: "+msg)
	}
}

func (x *examiner) podCertificate(p, whole fieldPath, t *corev1.PodCertificateProjection, paths *seen[string]) {
	x.errs = append(x.errs, check.Signer(t.SignerName, x.path(p.child("signerName")))...)
	if t.UserAnnotations != nil {
		x.errs = append(x.errs, check.SignerAnnotations(t.UserAnnotations, x.path(p.child("userAnnotations")))...)
	}
	oneOf(&x.findings, p.child("keyType"), t.KeyType, "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
	if s := t.MaxExpirationSeconds; s != nil {
		c, longest := p.child("maxExpirationSeconds"), check.MaxCertificateSeconds(t.SignerName)
		if *s < check.MinCertificateSeconds {
			x.invalid(c, *s, "if provided, maxExpirationSeconds must be >= 3600")
		}
		if *s > longest {
			x.invalid(c, *s, fmt.Sprintf("if provided, maxExpirationSeconds must be <= %d", longest))
		}
	}
	any := false
	for _, f := range []struct{ name, path string }{
		{"credentialBundlePath", t.CredentialBundlePath}, {"keyPath", t.KeyPath}, {"certificateChainPath", t.CertificateChainPath},
	} {
		if f.path != "" {
			any = true
			c := p.child(f.name)
			x.filePath(c, f.path)
			x.newPath(whole, f.path, f.path, paths)
		}
	}
	if !any {
		x.required(p, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
