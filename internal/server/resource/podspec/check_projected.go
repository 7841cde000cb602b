package podspec

import (
	corev1 "k8s.io/api/core/v1"
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
			x.trustBundle(c, s, paths)
		}
	}
	if s := v.PodCertificate; s != nil {
		if c, first := one.open("podCertificate"); first {
			x.podCertificate(c, s, paths)
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

func (x *examiner) trustBundle(p fieldPath, t *corev1.ClusterTrustBundleProjection, paths *seen[string]) {
	byName, bySigner := t.Name != nil, t.SignerName != nil
	switch {
	case byName && bySigner:
		x.invalid(p, "", "only one of name and signerName may be used")
	case byName:
		if x.requireText(p, "name", *t.Name) {
			x.invalidAll(p.child("name"), *t.Name, subdomain(*t.Name))
		}
	case bySigner:
		x.requireText(p, "signerName", *t.SignerName)
	default:
		x.required(p, "either name or signerName must be specified")
	}
	if x.requireText(p, "path", t.Path) {
		c := p.child("path")
		x.filePath(c, t.Path)
		x.newPath(c, t.Path, t.Path, paths)
	}
}

const (
	defaultCertificateSeconds int32 = 24 * 60 * 60
	minCertificateSeconds           = 60 * 60
	maxCertificateSeconds           = 91 * 24 * 60 * 60
)

func (x *examiner) podCertificate(p fieldPath, t *corev1.PodCertificateProjection, paths *seen[string]) {
	x.requireText(p, "signerName", t.SignerName)
	oneOf(&x.findings, p.child("keyType"), t.KeyType, "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096")
	if s := t.MaxExpirationSeconds; s != nil {
		c := p.child("maxExpirationSeconds")
		if *s < minCertificateSeconds {
			x.invalid(c, *s, "if provided, maxExpirationSeconds must be >= 3600")
		}
		if *s > maxCertificateSeconds {
			x.invalid(c, *s, "if provided, maxExpirationSeconds must be <= 7862400")
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
			x.newPath(c, f.path, f.path, paths)
		}
	}
	if !any {
		x.required(p, "specify at least one of credentialBundlePath, keyPath, and certificateChainPath")
	}
}
