package check

import (
	"fmt"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxDomain     = 253
	maxSignerPath = 253 + 1 + 63
	maxSigner     = maxDomain + 1 + maxSignerPath
)

// Signer requires a domain and a path, such as example.com/signer.
func Signer(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	domain, rest, _ := strings.Cut(name, "/")
	if strings.Count(name, "/") != 1 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	var errs field.ErrorList
	if len(domain) > maxDomain {
		errs = append(errs, field.TooLong(path, domain, maxDomain))
	}
	parts := strings.Split(domain, ".")
	for _, part := range parts {
		for _, msg := range validation.IsDNS1123Label(part) {
			errs = append(errs, field.Invalid(path, domain, fmt.Sprintf("validating label %q: %s", part, msg)))
		}
	}
	if len(parts) < 2 {
		errs = append(errs, field.Invalid(path, domain, "should be a domain with at least two segments separated by dots"))
	}
	for part := range strings.SplitSeq(rest, ".") {
		for _, msg := range validation.IsDNS1123Subdomain(part) {
			errs = append(errs, field.Invalid(path, rest, fmt.Sprintf("validating label %q: %s", part, msg)))
		}
	}
	if len(rest) > maxSignerPath {
		errs = append(errs, field.TooLong(path, rest, maxSignerPath))
	}
	if len(name) > maxSigner {
		errs = append(errs, field.TooLong(path, name, maxSigner))
	}
	return errs
}

// TrustBundleName validates the name of a ClusterTrustBundle: with a signer it must begin with the signer's name.
func TrustBundleName(name, signer string) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return apivalidation.NameIsDNSSubdomain(name, false)
	}
	prefix := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, prefix)}
	}
	return apivalidation.NameIsDNSSubdomain(rest, false)
}

// SignerOf is the signer that the name of a ClusterTrustBundle begins with; empty if it has none.
func SignerOf(bundle string) string {
	last := strings.LastIndex(bundle, ":")
	if last < 0 {
		return ""
	}
	return strings.ReplaceAll(bundle[:last], ":", "/")
}

const (
	// MinCertificateSeconds is the shortest lifetime that may be asked for a pod's certificate.
	MinCertificateSeconds = 60 * 60
	maxCertificateSeconds = 91 * 24 * 60 * 60
	maxKubernetesSeconds  = 24 * 60 * 60
)

// MaxCertificateSeconds is the longest lifetime that may be asked of a signer: Kubernetes' own give a day.
func MaxCertificateSeconds(signer string) int32 {
	domain, _, _ := strings.Cut(signer, "/")
	if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		return maxKubernetesSeconds
	}
	return maxCertificateSeconds
}

// SignerAnnotations validates what the author of a pod tells the signer of its certificates: each key has a domain.
func SignerAnnotations(all map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key := range all {
		errs = append(errs, validation.IsDomainPrefixedKey(path, strings.ToLower(key))...)
	}
	if apivalidation.ValidateAnnotationsSize(all) != nil {
		errs = append(errs, field.TooLong(path, "", apivalidation.TotalAnnotationSizeLimitB))
	}
	return errs
}
