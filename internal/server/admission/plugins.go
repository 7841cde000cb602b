package admission

import (
	"fmt"
	"slices"

	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/admission/api/validation"

	"github.com/millrace/millrace/internal/server/registry"
)

// plugin is a name that the flags of admission know.
type plugin struct {
	name string
	off  bool // by default
}

// order is that of Kubernetes 1.37. A plugin whose feature is switched off there does nothing here either.
var order = []plugin{
	{"AlwaysAdmit", true}, {"NamespaceAutoProvision", true}, {"NamespaceLifecycle", false}, {"NamespaceExists", true},
	{"LimitPodHardAntiAffinityTopology", true}, {"LimitRanger", false}, {"ServiceAccount", false}, {"NodeRestriction", true},
	{"TaintNodesByCondition", false}, {"AlwaysPullImages", true}, {"ImagePolicyWebhook", true}, {"PodSecurity", false},
	{"PodNodeSelector", true}, {"Priority", false}, {"DefaultTolerationSeconds", false}, {"PodTolerationRestriction", true},
	{"EventRateLimit", true}, {"ExtendedResourceToleration", true}, {"DefaultStorageClass", false}, {"StorageObjectInUseProtection", false},
	{"PodGroupProtection", false}, {"OwnerReferencesPermissionEnforcement", true}, {"PersistentVolumeClaimResize", false},
	{"RuntimeClass", false}, {"CertificateApproval", false}, {"CertificateSigning", false}, {"ClusterTrustBundleAttest", false},
	{"CertificateSubjectRestriction", false}, {"DefaultIngressClass", false}, {"DenyServiceExternalIPs", true},
	{"PodTopologyLabels", false}, {"NodeDeclaredFeatureValidator", false}, {"PodResizeValidator", false},
	{"MutatingAdmissionPolicy", false}, {"MutatingAdmissionWebhook", false}, {"ValidatingAdmissionPolicy", false},
	{"ValidatingAdmissionWebhook", false}, {"ResourceQuota", false}, {"AlwaysDeny", true},
}

// Names are all plugins that can be enabled and disabled, in their order.
func Names() []string {
	var out []string
	for _, p := range order {
		out = append(out, p.name)
	}
	return out
}

// CheckNames says what is wrong with a choice of plugins, in the words of kube-apiserver.
func CheckNames(enable, disable []string) error {
	known := Names()
	for _, of := range []struct {
		flag  string
		names []string
	}{{"enable-admission-plugins", enable}, {"disable-admission-plugins", disable}} {
		for _, n := range of.names {
			if !slices.Contains(known, n) {
				return fmt.Errorf("%s plugin %q is unknown", of.flag, n)
			}
		}
	}
	var both []string
	for _, n := range enable {
		if slices.Contains(disable, n) && !slices.Contains(both, n) {
			both = append(both, n)
		}
	}
	if slices.Sort(both); len(both) > 0 {
		return fmt.Errorf("%v in enable-admission-plugins and disable-admission-plugins overlapped", both)
	}
	return nil
}

// on tells whether a plugin is asked.
func (o *Options) on(p plugin) bool {
	switch {
	case p.name == "ServiceAccount" && !o.ServiceAccounts:
		return false
	case slices.Contains(o.Enable, p.name):
		return true
	}
	// Nodes are restricted by default, since their certificates come from the same authority as everybody's.
	return (!p.off || p.name == "NodeRestriction") && !slices.Contains(o.Disable, p.name)
}

// New are the plugins that are on, in the order of Kubernetes. What has another name comes last.
func New(o Options) ([]registry.Admission, error) {
	if err := CheckNames(o.Enable, o.Disable); err != nil {
		return nil, err
	}
	resources := newCluster(o.Registry)
	built := build(&o, resources)
	var all []registry.Admission
	for _, p := range order {
		if make, known := built[p.name]; known && o.on(p) {
			one, err := make()
			if err != nil {
				return nil, fmt.Errorf("failed to initialize admission plugin %q: %w", p.name, err)
			}
			all = append(all, one)
		}
		for _, other := range o.Extensions {
			if other.Name == p.name && o.on(p) {
				all = append(all, other)
			}
		}
	}
	known := Names()
	for _, other := range o.Extensions {
		if !slices.Contains(known, other.Name) {
			all = append(all, other)
		}
	}
	return append(all, resources.resourceClaims(o.Authorize), podCertificateSigning(o.Authorize)), nil
}

// maker makes a plugin when it is on.
type maker func() (registry.Admission, error)

// plain is the maker of a plugin that cannot fail.
func plain(make func() registry.Admission) maker {
	return func() (registry.Admission, error) { return make(), nil }
}

// build tells how plugins are made, by their names.
func build(o *Options, c *cluster) map[string]maker {
	return map[string]maker{
		"AlwaysAdmit":                          plain(alwaysAdmit),
		"NamespaceAutoProvision":               plain(c.namespaceAutoProvision),
		"NamespaceLifecycle":                   plain(c.namespaceLifecycle),
		"NamespaceExists":                      plain(c.namespaceExists),
		"LimitPodHardAntiAffinityTopology":     plain(limitAntiAffinity),
		"LimitRanger":                          plain(c.limitRanger),
		"ServiceAccount":                       plain(c.serviceAccount),
		"TaintNodesByCondition":                plain(taintNodesByCondition),
		"AlwaysPullImages":                     plain(alwaysPullImages),
		"ImagePolicyWebhook":                   func() (registry.Admission, error) { return imagePolicyWebhook(o.Configuration) },
		"PodSecurity":                          func() (registry.Admission, error) { return c.configuredSecurity(o.Configuration["PodSecurity"]) },
		"PodNodeSelector":                      func() (registry.Admission, error) { return c.podNodeSelector(o.Configuration) },
		"Priority":                             plain(c.priority),
		"DefaultTolerationSeconds":             plain(func() registry.Admission { return defaultTolerationSeconds(o.NotReadySeconds, o.UnreachableSeconds) }),
		"PodTolerationRestriction":             func() (registry.Admission, error) { return c.podTolerationRestriction(o.Configuration) },
		"EventRateLimit":                       func() (registry.Admission, error) { return eventRateLimit(o.Configuration) },
		"ExtendedResourceToleration":           plain(extendedResourceToleration),
		"DefaultStorageClass":                  plain(c.defaultStorageClass),
		"StorageObjectInUseProtection":         plain(storageObjectInUseProtection),
		"OwnerReferencesPermissionEnforcement": plain(func() registry.Admission { return ownerReferences(o) }),
		"PersistentVolumeClaimResize":          plain(c.persistentVolumeClaimResize),
		"RuntimeClass":                         plain(c.runtimeClass),
		"CertificateApproval":                  plain(func() registry.Admission { return certificateApproval(o.Authorize) }),
		"CertificateSigning":                   plain(func() registry.Admission { return certificateSigning(o.Authorize) }),
		"ClusterTrustBundleAttest":             plain(func() registry.Admission { return trustBundleAttest(o.Authorize) }),
		"CertificateSubjectRestriction":        plain(certificateSubjectRestriction),
		"DefaultIngressClass":                  plain(c.defaultIngressClass),
		"DenyServiceExternalIPs":               plain(denyExternalIPs),
		"PodTopologyLabels":                    plain(c.podTopologyLabels),
		"ResourceQuota":                        plain(c.resourceQuota),
		"AlwaysDeny":                           plain(alwaysDeny),
	}
}

// configuredSecurity is PodSecurity as a configuration sets it up.
func (cl *cluster) configuredSecurity(text []byte) (registry.Admission, error) {
	config, err := load.LoadFromData(text)
	if err != nil {
		return registry.Admission{}, err
	}
	if errs := validation.ValidatePodSecurityConfiguration(config); len(errs) > 0 {
		return registry.Admission{}, errs.ToAggregate()
	}
	return cl.podSecurity(config)
}
