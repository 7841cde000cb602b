package past

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// marked are the values by which objects are recognized that have the defaults of Kubernetes 1.37: in each kind those
// that came last, and those without which an object was never stored by a server, but by a tool or a test. Values that
// only some objects have are none: all others would have to be decoded.
var marked = map[string][]string{
	"pods":                                          {"spec.enableServiceLinks"},
	"podtemplates":                                  {"template.spec.schedulerName"},
	"replicationcontrollers":                        {"spec.replicas"},
	"services":                                      {"spec.type", "spec.sessionAffinity", "spec.clusterIPs", "spec.ipFamilyPolicy"},
	"persistentvolumeclaims":                        {"spec.volumeMode", "status.phase"},
	"persistentvolumes":                             {"spec.volumeMode", "spec.persistentVolumeReclaimPolicy", "status.phase"},
	"secrets":                                       {"type"},
	"namespaces":                                    {"status.phase"},
	"deployments.apps":                              {"spec.replicas", "spec.revisionHistoryLimit", "spec.progressDeadlineSeconds", "spec.template.spec.schedulerName"},
	"replicasets.apps":                              {"spec.replicas", "spec.template.spec.schedulerName"},
	"statefulsets.apps":                             {"spec.replicas", "spec.persistentVolumeClaimRetentionPolicy", "spec.template.spec.schedulerName"},
	"daemonsets.apps":                               {"spec.revisionHistoryLimit", "spec.template.spec.schedulerName"},
	"jobs.batch":                                    {"spec.completionMode", "spec.suspend", "spec.podReplacementPolicy", "spec.template.spec.schedulerName"},
	"cronjobs.batch":                                {"spec.suspend", "spec.failedJobsHistoryLimit", "spec.concurrencyPolicy"},
	"horizontalpodautoscalers.autoscaling":          {"spec.minReplicas", "spec.metrics"},
	"storageclasses.storage.k8s.io":                 {"reclaimPolicy", "volumeBindingMode"},
	"csidrivers.storage.k8s.io":                     {"spec.attachRequired", "spec.fsGroupPolicy", "spec.requiresRepublish", "spec.seLinuxMount"},
	"networkpolicies.networking.k8s.io":             {"spec.policyTypes"},
	"priorityclasses.scheduling.k8s.io":             {"preemptionPolicy"},
	"rolebindings.rbac.authorization.k8s.io":        {"roleRef.apiGroup"},
	"clusterrolebindings.rbac.authorization.k8s.io": {"roleRef.apiGroup"},
}

// readService completes a Service of a server that knew one address and one family of addresses.
func readService(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if ip := s.Spec.ClusterIP; len(s.Spec.ClusterIPs) == 0 && ip != "" {
		s.Spec.ClusterIPs = []string{ip}
	}
	missing(&s.Spec.IPFamilyPolicy, corev1.IPFamilyPolicySingleStack)
	if len(s.Spec.IPFamilies) == 0 {
		family := corev1.IPv4Protocol
		if ip, err := netip.ParseAddr(s.Spec.ClusterIP); err == nil && ip.Is6() {
			family = corev1.IPv6Protocol
		}
		s.Spec.IPFamilies = []corev1.IPFamily{family}
	}
}

// readSecret has nothing to add to the defaults; the type of an old secret can be selected by.
func readSecret(*corev1.Secret) {}
