package past

import (
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"
)

const admissionGroup = "admissionregistration.k8s.io"

func admissionPolicies(k byName) {
	alpha, beta := v1alpha1.SchemeGroupVersion, v1beta1.SchemeGroupVersion
	add(k, admissionGroup, "validatingadmissionpolicies",
		alike[*v1.ValidatingAdmissionPolicy, v1beta1.ValidatingAdmissionPolicy](beta, "ValidatingAdmissionPolicy"),
		alike[*v1.ValidatingAdmissionPolicy, v1alpha1.ValidatingAdmissionPolicy](alpha, "ValidatingAdmissionPolicy"))
	add(k, admissionGroup, "validatingadmissionpolicybindings",
		alike[*v1.ValidatingAdmissionPolicyBinding, v1beta1.ValidatingAdmissionPolicyBinding](beta, "ValidatingAdmissionPolicyBinding"),
		alike[*v1.ValidatingAdmissionPolicyBinding, v1alpha1.ValidatingAdmissionPolicyBinding](alpha, "ValidatingAdmissionPolicyBinding"))
	add(k, admissionGroup, "mutatingadmissionpolicies",
		alike[*v1.MutatingAdmissionPolicy, v1alpha1.MutatingAdmissionPolicy](alpha, "MutatingAdmissionPolicy"))
	add(k, admissionGroup, "mutatingadmissionpolicybindings",
		alike[*v1.MutatingAdmissionPolicyBinding, v1alpha1.MutatingAdmissionPolicyBinding](alpha, "MutatingAdmissionPolicyBinding"))
}

// admissionWebhooks sets the defaults of v1beta1, which are more lenient than those of v1.
func admissionWebhooks(k byName) {
	gv := v1beta1.SchemeGroupVersion
	add(k, admissionGroup, "validatingwebhookconfigurations", alike(gv, "ValidatingWebhookConfiguration",
		func(now *v1.ValidatingWebhookConfiguration, _ *v1beta1.ValidatingWebhookConfiguration) {
			for i := range now.Webhooks {
				w := &now.Webhooks[i]
				lenient(&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions)
			}
		}))
	add(k, admissionGroup, "mutatingwebhookconfigurations", alike(gv, "MutatingWebhookConfiguration",
		func(now *v1.MutatingWebhookConfiguration, _ *v1beta1.MutatingWebhookConfiguration) {
			for i := range now.Webhooks {
				w := &now.Webhooks[i]
				lenient(&w.FailurePolicy, &w.MatchPolicy, &w.SideEffects, &w.TimeoutSeconds, &w.AdmissionReviewVersions)
			}
		}))
}

func lenient(failure **v1.FailurePolicyType, match **v1.MatchPolicyType, effects **v1.SideEffectClass, timeout **int32, reviews *[]string) {
	missing(failure, v1.Ignore)
	missing(match, v1.Exact)
	missing(effects, v1.SideEffectClassUnknown)
	missing(timeout, 30)
	if len(*reviews) == 0 {
		*reviews = []string{"v1beta1"}
	}
}
