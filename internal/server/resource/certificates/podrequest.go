package certificates

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

type podRequest = certificatesv1.PodCertificateRequest

const defaultPodCertificateSeconds int32 = 24 * 60 * 60

// PodRequests are made by kubelets, for the certificates of pods. Nothing of a spec can be changed. Of the status only
// the end is written, once, by those who may sign for the signer (admission sees to that): it is issued, denied or
// failed. v1beta1, which has a key and a proof in place of the stub, is read from stores and not served: v1 has no place
// for these.
func PodRequests() *resource.Kind {
	spec := certificatesv1.PodCertificateRequestSpec{}.SwaggerDoc()
	return resource.Define(resource.Description[*podRequest]{
		Group: certificatesv1.GroupName, Version: "v1", Kind: "PodCertificateRequest", Resource: "podcertificaterequests",
		Namespaced: true, NoGeneration: true,
		Default: func(r *podRequest) {
			if r.Spec.MaxExpirationSeconds == nil {
				seconds := defaultPodCertificateSeconds
				r.Spec.MaxExpirationSeconds = &seconds
			}
		},
		Rules: resource.Rules[*podRequest]{
			Validate: func(_ context.Context, r *podRequest) field.ErrorList { return checkPodRequest(r) },
			ValidateUpdate: func(_ context.Context, r, old *podRequest) field.ErrorList {
				return check.Immutable(r.Spec, old.Spec, field.NewPath("spec"))
			},
		},
		Status: &resource.Rules[*podRequest]{
			ValidateUpdate: func(_ context.Context, r, old *podRequest) field.ErrorList { return checkPodOutcome(r, old) },
		},
		Fields: []resource.Field{{Label: "spec.signerName"}, {Label: "spec.podName"}, {Label: "spec.nodeName", Indexed: true}},
		Columns: []table.Column{
			table.Name(),
			table.Text("PodName", spec["podName"]),
			table.Text("ServiceAccountName", spec["serviceAccountName"]),
			table.Text("NodeName", spec["nodeName"]),
			table.Text("SignerName", spec["signerName"]),
			table.Text("State", "Is the request Pending, Issued, Denied, or Failed?"),
			table.Text("UnverifiedUserAnnotations", spec["unverifiedUserAnnotations"]),
		},
		Row: podRequestRow,
	})
}

func podRequestRow(r *podRequest) resource.Row {
	state := "Pending"
	if end := endOf(r); end != "" {
		state = end
	}
	s := &r.Spec
	return resource.Row{Cells: []any{
		r.Name, s.PodName, s.ServiceAccountName, string(s.NodeName), s.SignerName, state, table.Labels(s.UnverifiedUserAnnotations),
	}}
}
