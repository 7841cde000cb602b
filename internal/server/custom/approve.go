package custom

import (
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// approve says whether a definition in a group of Kubernetes' own has been approved by its community. Nothing depends
// on it.
func approve(def *v1.CustomResourceDefinition) {
	if !apihelpers.IsProtectedCommunityGroup(def.Spec.Group) {
		return
	}
	state, why := apihelpers.GetAPIApprovalState(def.Annotations)
	c := v1.CustomResourceDefinitionCondition{Type: v1.KubernetesAPIApprovalPolicyConformant, Status: v1.ConditionFalse, Message: why}
	switch state {
	case apihelpers.APIApprovalInvalid:
		c.Reason = "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Reason = "MissingAnnotation"
	case apihelpers.APIApproved:
		c.Status, c.Reason = v1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Reason = "UnapprovedAnnotation"
	default:
		c.Status, c.Reason = v1.ConditionUnknown, "UnknownAnnotation"
	}
	apihelpers.SetCRDCondition(def, c)
}
