package oidc

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"
)

// mostIssuers bounds a configuration.
const mostIssuers = 64

// matchAny is the only policy of audiences.
const matchAny = "MatchAny"

// Validate says, in the words of kube-apiserver, what is wrong with a configuration. The tokens of some issuers are
// none of its business: those that the cluster issues itself.
func Validate(c *Configuration, disallowed ...string) field.ErrorList {
	_, errs := compileAll(c, disallowed)
	return errs
}

// compileAll compiles the expressions of a configuration and validates it.
func compileAll(c *Configuration, disallowed []string) ([]*mapping, field.ErrorList) {
	root := field.NewPath("jwt")
	if n := len(c.JWT); n > mostIssuers {
		return nil, field.ErrorList{field.TooMany(root, n, mostIssuers)}
	}
	var errs field.ErrorList
	var mappings []*mapping
	urls, discoveries := map[string]bool{}, map[string]bool{}
	for i := range c.JWT {
		j, path := &c.JWT[i], root.Index(i)
		errs = append(errs, checkIssuer(&j.Issuer, disallowed, path.Child("issuer"))...)
		m, wrong := compileMapping(j, path)
		mappings, errs = append(mappings, m), append(errs, wrong...)
		if urls[j.Issuer.URL] {
			errs = append(errs, field.Duplicate(path.Child("issuer", "url"), j.Issuer.URL))
		}
		urls[j.Issuer.URL] = true
		if at := j.Issuer.DiscoveryURL; at != "" {
			if discoveries[at] {
				errs = append(errs, field.Duplicate(path.Child("issuer", "discoveryURL"), at))
			}
			discoveries[at] = true
		}
	}
	if a := c.Anonymous; a != nil && !a.Enabled && len(a.Conditions) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("anonymous", "conditions"), a.Conditions, "enabled should be set to true when conditions are defined"))
	}
	return mappings, errs
}

func checkIssuer(i *Issuer, disallowed []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if i.URL == "" {
		errs = append(errs, field.Required(path.Child("url"), ""))
	} else {
		errs = append(errs, checkURL(i.URL, disallowed, path.Child("url"))...)
	}
	if at := i.DiscoveryURL; at != "" {
		if i.URL != "" && strings.TrimRight(i.URL, "/") == strings.TrimRight(at, "/") {
			errs = append(errs, field.Invalid(path.Child("discoveryURL"), at, "discoveryURL must be different from URL"))
		}
		errs = append(errs, checkURL(at, nil, path.Child("discoveryURL"))...)
	}
	errs = append(errs, checkAudiences(i, path)...)
	if i.CertificateAuthority != "" {
		if _, err := cert.NewPoolFromBytes([]byte(i.CertificateAuthority)); err != nil {
			errs = append(errs, field.Invalid(path.Child("certificateAuthority"), "<omitted>", err.Error()))
		}
	}
	switch i.EgressSelectorType {
	case "":
	case "controlplane", "cluster":
		errs = append(errs, field.Invalid(path.Child("egressSelectorType"), i.EgressSelectorType, "egress lookup required with egress selector type, and there is no egress selector configuration"))
	default:
		errs = append(errs, field.Invalid(path.Child("egressSelectorType"), i.EgressSelectorType, "egress selector must be either controlplane or cluster"))
	}
	return errs
}

func checkURL(text string, disallowed []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if slices.Contains(disallowed, text) {
		errs = append(errs, field.Invalid(path, text, fmt.Sprintf("URL must not overlap with disallowed issuers: %s", slices.Sorted(slices.Values(disallowed)))))
	}
	u, err := url.Parse(text)
	if err != nil {
		return append(errs, field.Invalid(path, text, err.Error()))
	}
	for _, rule := range []struct {
		broken bool
		words  string
	}{
		{u.Scheme != "https", "URL scheme must be https"},
		{u.User != nil, "URL must not contain a username or password"},
		{u.RawQuery != "", "URL must not contain a query"},
		{u.Fragment != "", "URL must not contain a fragment"},
	} {
		if rule.broken {
			errs = append(errs, field.Invalid(path, text, rule.words))
		}
	}
	return errs
}

func checkAudiences(i *Issuer, path *field.Path) field.ErrorList {
	at := path.Child("audiences")
	if len(i.Audiences) == 0 {
		return field.ErrorList{field.Required(at, fmt.Sprintf("at least one %s is required", at))}
	}
	var errs field.ErrorList
	for n, audience := range i.Audiences {
		if audience == "" {
			errs = append(errs, field.Required(at.Index(n), ""))
		}
		if slices.Contains(i.Audiences[:n], audience) {
			errs = append(errs, field.Duplicate(at.Index(n), audience))
		}
	}
	policy := path.Child("audienceMatchPolicy")
	switch p := i.AudienceMatchPolicy; {
	case len(i.Audiences) > 1 && p != matchAny:
		errs = append(errs, field.Invalid(policy, p, "audienceMatchPolicy must be MatchAny for multiple audiences"))
	case len(i.Audiences) == 1 && p != "" && p != matchAny:
		errs = append(errs, field.Invalid(policy, p, "audienceMatchPolicy must be empty or MatchAny for single audience"))
	}
	return errs
}

// checkKey checks the key of an extra value.
func checkKey(key string, path *field.Path) field.ErrorList {
	errs := validation.IsDomainPrefixedPath(path, key)
	if key != strings.ToLower(key) {
		errs = append(errs, field.Invalid(path, key, "must be lowercase"))
	}
	if domain, _, ok := strings.Cut(key, "/"); ok {
		for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
			if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
				errs = append(errs, field.Invalid(path, key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"))
			}
		}
	}
	return errs
}
