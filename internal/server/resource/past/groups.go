package past

import (
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	discoveryv1beta1 "k8s.io/api/discovery/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"

	"github.com/millrace/millrace/internal/server/resource"
)

type byName = map[schema.GroupResource]*resource.Kind

func batch(k byName) {
	add(k, "batch", "cronjobs", alike[*batchv1.CronJob, batchv1beta1.CronJob](batchv1beta1.SchemeGroupVersion, "CronJob"))
}

func certificates(k byName) {
	add(k, "certificates.k8s.io", "certificatesigningrequests", alike(certificatesv1beta1.SchemeGroupVersion, "CertificateSigningRequest",
		func(now *certificatesv1.CertificateSigningRequest, _ *certificatesv1beta1.CertificateSigningRequest) {
			if now.Spec.Usages == nil {
				now.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
			}
			if now.Spec.SignerName == "" {
				now.Spec.SignerName = signerOf(now)
			}
			for i := range now.Status.Conditions {
				if now.Status.Conditions[i].Status == "" {
					now.Status.Conditions[i].Status = corev1.ConditionTrue
				}
			}
		}))
	add(k, "certificates.k8s.io", "clustertrustbundles",
		alike[*certificatesv1.ClusterTrustBundle, certificatesv1alpha1.ClusterTrustBundle](certificatesv1alpha1.SchemeGroupVersion, "ClusterTrustBundle"))
	add(k, "certificates.k8s.io", "podcertificaterequests",
		alike[*certificatesv1.PodCertificateRequest, certificatesv1beta1.PodCertificateRequest](certificatesv1beta1.SchemeGroupVersion, "PodCertificateRequest"))
}

func coordination(k byName) {
	add(k, "coordination.k8s.io", "leases", alike[*coordinationv1.Lease, coordinationv1beta1.Lease](coordinationv1beta1.SchemeGroupVersion, "Lease"))
}

// discovery moves the zone, and the node's name, out of the labels that v1beta1 has as a topology.
func discovery(k byName) {
	add(k, "discovery.k8s.io", "endpointslices", alike(discoveryv1beta1.SchemeGroupVersion, "EndpointSlice",
		func(now *discoveryv1.EndpointSlice, old *discoveryv1beta1.EndpointSlice) {
			for i := range now.Endpoints {
				withoutTopology(&now.Endpoints[i], old.Endpoints[i].Topology)
			}
		}))
}

func withoutTopology(e *discoveryv1.Endpoint, topology map[string]string) {
	for key, value := range topology {
		switch {
		case key == corev1.LabelTopologyZone:
			e.Zone = &value
			continue
		case key == corev1.LabelHostname && e.NodeName != nil && *e.NodeName == value:
			continue
		case e.DeprecatedTopology == nil:
			e.DeprecatedTopology = map[string]string{}
		}
		e.DeprecatedTopology[key] = value
	}
}

func nodes(k byName) {
	add(k, "node.k8s.io", "runtimeclasses",
		alike[*nodev1.RuntimeClass, nodev1beta1.RuntimeClass](nodev1beta1.SchemeGroupVersion, "RuntimeClass"),
		alike(nodev1alpha1.SchemeGroupVersion, "RuntimeClass", func(now *nodev1.RuntimeClass, old *nodev1alpha1.RuntimeClass) {
			now.Handler = old.Spec.RuntimeHandler
			spec := struct {
				Overhead   *nodev1.Overhead
				Scheduling *nodev1.Scheduling
			}{}
			resource.Transcribe(&spec, &old.Spec)
			now.Overhead, now.Scheduling = spec.Overhead, spec.Scheduling
		}))
}

// In v1beta1 an empty selector selects no pods, and in v1 all of them. This label, which no pod has, stands for that in
// the other version.
const matchLabel = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

func policy(k byName) {
	add(k, "policy", "poddisruptionbudgets", alike(policyv1beta1.SchemeGroupVersion, "PodDisruptionBudget",
		func(now *policyv1.PodDisruptionBudget, _ *policyv1beta1.PodDisruptionBudget) {
			convertSelector(now.Spec.Selector)
		}))
}

func convertSelector(s *metav1.LabelSelector) {
	exists := metav1.LabelSelectorRequirement{Key: matchLabel, Operator: metav1.LabelSelectorOpExists}
	switch {
	case s == nil:
	case len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0:
		s.MatchExpressions = []metav1.LabelSelectorRequirement{exists}
	default:
		delete(s.MatchLabels, matchLabel)
		var rest []metav1.LabelSelectorRequirement
		for _, r := range s.MatchExpressions {
			if r.Key != matchLabel {
				rest = append(rest, r)
			}
		}
		s.MatchExpressions = rest
	}
}

func scheduling(k byName) {
	add(k, "scheduling.k8s.io", "priorityclasses",
		alike[*schedulingv1.PriorityClass, schedulingv1beta1.PriorityClass](schedulingv1beta1.SchemeGroupVersion, "PriorityClass"))
}

func services(k byName) {
	add(k, "apiregistration.k8s.io", "apiservices",
		alike[*apiregistrationv1.APIService, apiregistrationv1beta1.APIService](apiregistrationv1beta1.SchemeGroupVersion, "APIService"))
}

func storage(k byName) {
	const group = "storage.k8s.io"
	alpha, beta := storagev1alpha1.SchemeGroupVersion, storagev1beta1.SchemeGroupVersion
	add(k, group, "storageclasses", alike[*storagev1.StorageClass, storagev1beta1.StorageClass](beta, "StorageClass"))
	add(k, group, "csidrivers", alike[*storagev1.CSIDriver, storagev1beta1.CSIDriver](beta, "CSIDriver"))
	add(k, group, "csinodes", alike[*storagev1.CSINode, storagev1beta1.CSINode](beta, "CSINode"))
	add(k, group, "volumeattachments",
		alike[*storagev1.VolumeAttachment, storagev1beta1.VolumeAttachment](beta, "VolumeAttachment"),
		alike[*storagev1.VolumeAttachment, storagev1alpha1.VolumeAttachment](alpha, "VolumeAttachment"))
	add(k, group, "csistoragecapacities",
		alike[*storagev1.CSIStorageCapacity, storagev1beta1.CSIStorageCapacity](beta, "CSIStorageCapacity"),
		alike[*storagev1.CSIStorageCapacity, storagev1alpha1.CSIStorageCapacity](alpha, "CSIStorageCapacity"))
	add(k, group, "volumeattributesclasses",
		alike[*storagev1.VolumeAttributesClass, storagev1beta1.VolumeAttributesClass](beta, "VolumeAttributesClass"),
		alike[*storagev1.VolumeAttributesClass, storagev1alpha1.VolumeAttributesClass](alpha, "VolumeAttributesClass"))
}
