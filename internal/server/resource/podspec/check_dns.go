package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (x *examiner) dnsPolicy(p fieldPath) {
	switch x.spec.DNSPolicy {
	case corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault, corev1.DNSNone:
		return
	}
	c := p.child("dnsPolicy")
	if x.spec.DNSPolicy == "" {
		x.required(c, "")
		return
	}
	oneOf(&x.findings, c, x.spec.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
}

// Limits of a resolver.
const (
	maxNameservers  = 3
	maxSearches     = 32
	longestSearches = 2048
)

func (x *examiner) dnsConfig(p fieldPath) {
	d := x.spec.DNSConfig
	if d == nil && x.spec.DNSPolicy != corev1.DNSNone {
		return
	}
	config := p.child("dnsConfig")
	if x.spec.DNSPolicy == corev1.DNSNone {
		if d == nil {
			x.required(config, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone))
			return
		}
		if len(d.Nameservers) == 0 {
			x.required(config.child("nameservers"), fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone))
			return
		}
	}
	servers := config.child("nameservers")
	if len(d.Nameservers) > maxNameservers {
		x.invalid(servers, d.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers))
	}
	for i, ns := range d.Nameservers {
		x.errs = append(x.errs, validation.IsValidIPForLegacyField(x.path(servers.item(i)), ns, true, nil)...)
	}
	x.searches(config, d.Searches)
	options := config.child("options")
	for i := range d.Options {
		if d.Options[i].Name == "" {
			x.required(options.item(i), "must not be empty")
		}
	}
}

func (x *examiner) searches(p fieldPath, searches []string) {
	list := p.child("searches")
	if len(searches) > maxSearches {
		x.invalid(list, searches, fmt.Sprintf("must not have more than %v search paths", maxSearches))
	}
	if len(strings.Join(searches, " ")) > longestSearches {
		x.invalid(list, searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", longestSearches))
	}
	for i, s := range searches {
		if s == "." {
			continue
		}
		if messages := validation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(s, ".")); messages != nil {
			x.invalidAll(list.item(i), strings.TrimSuffix(s, "."), messages)
		}
	}
}

func (x *examiner) hostAliases(p fieldPath) {
	list := p.child("hostAliases")
	for i := range x.spec.HostAliases {
		item := list.item(i)
		x.errs = append(x.errs, validation.IsValidIPForLegacyField(x.path(item.child("ip")), x.spec.HostAliases[i].IP, true, nil)...)
		names := item.child("hostnames")
		for j, name := range x.spec.HostAliases[i].Hostnames {
			if messages := subdomain(name); messages != nil {
				x.invalidAll(names.item(j), name, messages)
			}
		}
	}
}
