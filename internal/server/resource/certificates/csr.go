// Package certificates describes the kinds of the group certificates.k8s.io.
package certificates

import (
	"context"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/table"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{SigningRequests(), TrustBundles(), PodRequests()}
}

type request = certificatesv1.CertificateSigningRequest

// SigningRequests request certificates. The server records the requesting user. Approval has a subresource of its own,
// so that it can be permitted separately; the signed certificate is part of the status.
func SigningRequests() *resource.Kind {
	return resource.Define(resource.Description[*request]{
		Group: certificatesv1.GroupName, Version: "v1", Kind: "CertificateSigningRequest", Resource: "certificatesigningrequests",
		ShortNames: []string{"csr"}, NoGeneration: true, UnconditionalUpdate: true,
		Name: func(name string, prefix bool) []string {
			if prefix {
				return content.IsPathSegmentPrefix(name)
			}
			return content.IsPathSegmentName(name)
		},
		Default: func(r *request) {
			if r.Spec.Usages == nil {
				r.Spec.Usages = []certificatesv1.KeyUsage{}
			}
		},
		Rules: resource.Rules[*request]{
			PrepareCreate:  prepareCreate,
			PrepareUpdate:  func(_ context.Context, r, old *request) { r.Spec = old.Spec },
			Validate:       func(_ context.Context, r *request) field.ErrorList { return checkRequest(r) },
			ValidateUpdate: func(_ context.Context, r, old *request) field.ErrorList { return checkUpdate(r, old) },
		},
		Status: &resource.Rules[*request]{
			PrepareUpdate:  func(_ context.Context, r, old *request) { prepareStatus(r, old) },
			ValidateUpdate: func(_ context.Context, r, old *request) field.ErrorList { return checkStatus(r, old) },
		},
		Views: map[string]resource.View[*request]{
			"approval": {Rules: resource.Rules[*request]{
				PrepareUpdate:  func(_ context.Context, r, old *request) { prepareApproval(r, old) },
				ValidateUpdate: func(_ context.Context, r, old *request) field.ErrorList { return checkApproval(r, old) },
			}},
		},
		Fields: []resource.Field{{Label: "spec.signerName"}},
		Columns: []table.Column{
			table.Name(),
			table.Age(),
			table.Text("SignerName", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["signerName"]),
			table.Text("Requestor", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["request"]),
			table.Text("RequestedDuration", certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc()["expirationSeconds"]),
			table.Text("Condition", certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"]),
		},
		Row: requestRow,
	})
}

// prepareCreate records the requesting user, whatever the request says.
func prepareCreate(ctx context.Context, r *request) {
	call := resource.CallFrom(ctx)
	r.Spec.Username, r.Spec.UID = call.User, call.UID
	r.Spec.Groups, r.Spec.Extra = nil, nil
	if len(call.Groups) > 0 {
		r.Spec.Groups = slices.Clone(call.Groups)
	}
	if len(call.Extra) > 0 {
		r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		for key, values := range call.Extra {
			r.Spec.Extra[key] = certificatesv1.ExtraValue(slices.Clone(values))
		}
	}
}

// prepareStatus keeps the Approved and Denied conditions, and lets signers add others. Validation refuses to add or
// remove the former.
func prepareStatus(r, old *request) {
	before := byType(old.Status.Conditions)
	for i, c := range r.Status.Conditions {
		if was, there := before[c.Type]; there && isVerdict(c.Type) {
			r.Status.Conditions[i] = was
		}
	}
	noteTimes(r, old)
}

func prepareApproval(r, old *request) {
	r.Spec = old.Spec
	conditions := r.Status.Conditions
	r.Status = old.Status
	r.Status.Conditions = conditions
	noteTimes(r, old)
}

func isVerdict(t certificatesv1.RequestConditionType) bool {
	return t == certificatesv1.CertificateApproved || t == certificatesv1.CertificateDenied
}

func byType(all []certificatesv1.CertificateSigningRequestCondition) map[certificatesv1.RequestConditionType]certificatesv1.CertificateSigningRequestCondition {
	m := map[certificatesv1.RequestConditionType]certificatesv1.CertificateSigningRequestCondition{}
	for _, c := range all {
		m[c.Type] = c
	}
	return m
}

// noteTimes sets the times of conditions: the last update, and the last transition.
func noteTimes(r, old *request) {
	before, now := byType(old.Status.Conditions), metav1.Now()
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		if was, there := before[c.Type]; there && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
}

func requestRow(r *request) resource.Row {
	wanted := table.None
	if s := r.Spec.ExpirationSeconds; s != nil {
		wanted = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return resource.Row{Cells: []any{r.Name, table.Since(r.CreationTimestamp), r.Spec.SignerName, r.Spec.Username, wanted, conditionText(&r.Status)}}
}

func conditionText(s *certificatesv1.CertificateSigningRequestStatus) string {
	var approved, denied, failed bool
	for _, c := range s.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied:
			denied = true
		case certificatesv1.CertificateFailed:
			failed = true
		}
	}
	var words []string
	switch {
	case denied:
		words = append(words, "Denied")
	case approved:
		words = append(words, "Approved")
	default:
		words = append(words, "Pending")
	}
	if failed {
		words = append(words, "Failed")
	}
	if len(s.Certificate) > 0 {
		words = append(words, "Issued")
	}
	return strings.Join(words, ",")
}
