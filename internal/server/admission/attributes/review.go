package attributes

import (
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Review is what a webhook or an expression is told of the request, but for objects and options.
func (v *Version) Review(uid types.UID) *admissionv1.AdmissionRequest {
	requestKind, requestResource := metav1.GroupVersionKind(v.GroupVersionKind), metav1.GroupVersionResource(v.Request.Resource)
	dryRun := v.DryRun
	return &admissionv1.AdmissionRequest{
		UID: uid, Kind: metav1.GroupVersionKind(v.AsKind), Resource: metav1.GroupVersionResource(v.As), SubResource: v.View,
		RequestKind: &requestKind, RequestResource: &requestResource, RequestSubResource: v.View,
		Name: v.Named, Namespace: v.Within, Operation: admissionv1.Operation(v.Operation), UserInfo: v.UserInfo(), DryRun: &dryRun,
	}
}
