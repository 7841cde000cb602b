package admissionregistration

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkHooks(now, old []hook) field.ErrorList                                 { return nil }
func checkValidating(p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList   { return nil }
func checkPolicyStatus(p *admissionv1.ValidatingAdmissionPolicy) field.ErrorList { return nil }
func checkValidatingBinding(p *admissionv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	return nil
}
func checkMutating(p *admissionv1.MutatingAdmissionPolicy) field.ErrorList               { return nil }
func checkMutatingBinding(p *admissionv1.MutatingAdmissionPolicyBinding) field.ErrorList { return nil }
