package podspec

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (w *warnings) volume(s *corev1.VolumeSource, i int) {
	at := func() *field.Path { return w.spec.Child("volumes").Index(i) }
	old := ""
	switch {
	case s.PhotonPersistentDisk != nil:
		old = "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+"
	case s.GitRepo != nil:
		old = "gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
	case s.ScaleIO != nil:
		old = "scaleIO: deprecated in v1.16, non-functional in v1.22+"
	case s.Flocker != nil:
		old = "flocker: deprecated in v1.22, non-functional in v1.25+"
	case s.StorageOS != nil:
		old = "storageOS: deprecated in v1.22, non-functional in v1.25+"
	case s.Quobyte != nil:
		old = "quobyte: deprecated in v1.22, non-functional in v1.25+"
	case s.Glusterfs != nil:
		old = "glusterfs: deprecated in v1.25, non-functional in v1.26+"
	case s.CephFS != nil:
		old = "cephfs: deprecated in v1.28, non-functional in v1.31+"
	case s.RBD != nil:
		old = "rbd: deprecated in v1.28, non-functional in v1.31+"
	}
	if old != "" {
		w.said = append(w.said, at().String()+"."+old)
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		r := &s.Ephemeral.VolumeClaimTemplate.Spec.Resources
		resources := func() *field.Path { return at().Child("ephemeral", "volumeClaimTemplate", "spec", "resources") }
		w.fractions(r.Limits, corev1.ResourceStorage, func() *field.Path { return resources().Child("limits") })
		w.fractions(r.Requests, corev1.ResourceStorage, func() *field.Path { return resources().Child("requests") })
	}
}

// file is a path in a volume, and the source of its content.
type file struct {
	path, source string
}

// overlaps warns about files of a volume that hide each other.
func (w *warnings) overlaps(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil && v.ConfigMap.Items != nil:
		w.overlapping(v.Name, "ConfigMap "+strconv.Quote(v.ConfigMap.Name), keyFiles(v.ConfigMap.Items, ""))
	case v.Secret != nil && v.Secret.Items != nil:
		w.overlapping(v.Name, "Secret "+strconv.Quote(v.Secret.SecretName), keyFiles(v.Secret.Items, ""))
	case v.DownwardAPI != nil:
		w.overlapping(v.Name, "DownwardAPI", downwardFiles(v.DownwardAPI.Items, ""))
	case v.Projected != nil:
		var all []file
		for i := range v.Projected.Sources {
			more, some := projectedFiles(&v.Projected.Sources[i])
			if !some {
				w.said = append(w.said, "volume "+strconv.Quote(v.Name)+" (Projected) has no sources provided")
			}
			all = append(all, more...)
		}
		w.overlapping(v.Name, "Projected", all)
	}
}

func keyFiles(items []corev1.KeyToPath, source string) []file {
	var files []file
	for i := range items {
		files = append(files, file{items[i].Path, source})
	}
	return files
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile, source string) []file {
	var files []file
	for i := range items {
		files = append(files, file{items[i].Path, source})
	}
	return files
}

// projectedFiles also reports whether there is any source.
func projectedFiles(s *corev1.VolumeProjection) (files []file, some bool) {
	switch {
	case s.ConfigMap != nil:
		return keyFiles(s.ConfigMap.Items, "ConfigMap "+strconv.Quote(s.ConfigMap.Name)), true
	case s.Secret != nil:
		return keyFiles(s.Secret.Items, "Secret "+strconv.Quote(s.Secret.Name)), true
	case s.DownwardAPI != nil:
		return downwardFiles(s.DownwardAPI.Items, "DownwardAPI"), true
	case s.ServiceAccountToken != nil:
		return []file{{s.ServiceAccountToken.Path, "ServiceAccountToken"}}, true
	case s.ClusterTrustBundle != nil:
		return []file{{s.ClusterTrustBundle.Path, "ClusterTrustBundle"}}, true
	case s.PodCertificate != nil:
		for _, p := range [...]string{s.PodCertificate.CredentialBundlePath, s.PodCertificate.KeyPath, s.PodCertificate.CertificateChainPath} {
			if p != "" {
				files = append(files, file{p, "PodCertificate"})
			}
		}
		return files, true
	}
	return nil, false
}

// overlapping compares each file with those before it.
func (w *warnings) overlapping(volume, kind string, files []file) {
	var before []file
	for _, f := range files {
		for _, b := range before {
			if inside(f.path, b.path) || inside(b.path, f.path) {
				w.said = append(w.said, "volume "+strconv.Quote(volume)+" ("+kind+"): overlapping paths: "+f.String()+" with "+b.String())
			}
		}
		if !slices.Contains(before, f) {
			before = append(before, f)
		}
	}
}

func (f file) String() string {
	if f.source == "" {
		return strconv.Quote(f.path)
	}
	return strconv.Quote(f.path) + " (" + f.source + ")"
}

func inside(target, directory string) bool {
	return target == directory || strings.HasPrefix(target, strings.TrimRight(directory, "/")+"/")
}
