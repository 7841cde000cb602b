package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// The user and the group of a node.
const (
	NodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// nodeKey is the key of a hollow node's name in the context of its requests.
type nodeKey struct{}

// asHollowNode returns the context for the requests of a hollow node.
func asHollowNode(ctx context.Context, node string) context.Context {
	return context.WithValue(ctx, nodeKey{}, node)
}

// impersonateHollowNodes sends requests with a context of asHollowNode as that node.
func impersonateHollowNodes(config *rest.Config) error {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return nodeImpersonator{next} })
	return nil
}

type nodeImpersonator struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i nodeImpersonator) RoundTrip(r *http.Request) (*http.Response, error) {
	node, ok := r.Context().Value(nodeKey{}).(string)
	if !ok {
		return i.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set(transport.ImpersonateUserHeader, NodeUserPrefix+node)
	r.Header.Set(transport.ImpersonateGroupHeader, nodesGroup)
	return i.next.RoundTrip(r)
}

// WrappedRoundTripper gives client-go access to the inner transport, which it configures.
func (i nodeImpersonator) WrappedRoundTripper() http.RoundTripper { return i.next }

// hollowIdentity returns the function that gives the requests of hollow nodes their identities: those of nodes, if the
// kubeconfig's user may impersonate them. A user who may not, such as a node itself, makes all requests, and the
// function is nil.
func hollowIdentity(ctx context.Context, kube kubernetes.Interface, log *slog.Logger) (func(context.Context, string) context.Context, error) {
	for _, wanted := range []authorizationv1.ResourceAttributes{
		{Verb: "impersonate", Resource: "users"}, {Verb: "impersonate", Resource: "groups", Name: nodesGroup},
	} {
		review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &wanted},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("ask whether nodes may be impersonated: %w", err)
		}
		if !review.Status.Allowed {
			log.Info("hollow nodes use the kubeconfig's identity, because it may not impersonate nodes", "refused", strings.TrimSpace(wanted.Resource+" "+wanted.Name))
			return nil, nil
		}
	}
	return asHollowNode, nil
}
