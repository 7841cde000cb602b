package certificates

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/loop"
)

// Approving approves the requests of kubelets.
var Approving = loop.Entry{
	Name: approvingName, Aliases: []string{"csrapproving"},
	New: func(c *loop.Clients) (loop.Runner, error) {
		r := newRequests(c)
		return r.loop(c, approvingName, r.approve), nil
	},
}

// recognized is a kind of request that may be approved, and the permission that its requester needs.
type recognized struct{ permission, message string }

var (
	selfNode = recognized{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}
	anyNode  = recognized{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
)

func (r *requests) approve(ctx context.Context, key loop.Key, found *request) (loop.Result, error) {
	if len(found.Status.Certificate) > 0 || condition(found, certificatesv1.CertificateApproved) != nil || condition(found, certificatesv1.CertificateDenied) != nil {
		return loop.Result{}, nil
	}
	wanted, err := parse(found)
	if err != nil {
		return loop.Result{}, loop.Terminal(fmt.Errorf("parse the request %s: %w", found.Name, err))
	}
	if found.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || kubeletClient(wanted, found.Spec.Usages) != nil {
		return loop.Result{}, nil
	}
	kinds := []recognized{anyNode}
	if found.Spec.Username == wanted.Subject.CommonName {
		kinds = []recognized{selfNode, anyNode}
	}
	for _, kind := range kinds {
		may, err := r.may(ctx, found, kind.permission)
		if err != nil {
			return loop.Result{}, err
		}
		if may {
			return loop.Result{}, r.writeApproval(ctx, key, found, kind.message)
		}
	}
	// The permission may be granted later: look again after as long as it has waited.
	return loop.Result{After: min(max(r.now().Sub(found.CreationTimestamp.Time), time.Second), 1000*time.Second)}, nil
}

// may checks whether the requester has the permission.
func (r *requests) may(ctx context.Context, found *request, permission string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: found.Spec.Username, UID: found.Spec.UID, Groups: found.Spec.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: certificatesv1.GroupName, Version: "*", Resource: "certificatesigningrequests", Subresource: permission,
		},
	}}
	for name, values := range found.Spec.Extra {
		review.Spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	answer, err := r.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("check the permission of %s for the certificate %s: %w", found.Spec.Username, found.Name, err)
	}
	return answer.Status.Allowed, nil
}

func (r *requests) writeApproval(ctx context.Context, key loop.Key, found *request, message string) error {
	changed := found.DeepCopy()
	changed.Status.Conditions = append(changed.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	written, err := r.kube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, found.Name, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("approve the request %s: %w", found.Name, err)
	}
	loop.Wrote(ctx, r.cache, written.ResourceVersion)
	return nil
}
