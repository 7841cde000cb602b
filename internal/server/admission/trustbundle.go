package admission

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/millrace/millrace/internal/server/auth"
	"github.com/millrace/millrace/internal/server/registry"
)

// trustBundleAttest lets only those say which authorities a signer has who may attest for it.
func trustBundleAttest(a auth.Authorizer) registry.Admission {
	return validating("ClusterTrustBundleAttest", func(ctx context.Context, c *registry.Change) error {
		if c.Operation != registry.Create && c.Operation != registry.Update || !is(c, "certificates.k8s.io", "clustertrustbundles") {
			return nil
		}
		b := c.Object.(*certificatesv1.ClusterTrustBundle)
		if b.Spec.SignerName == "" {
			return nil
		}
		if old, ok := c.Old.(*certificatesv1.ClusterTrustBundle); ok && onlyCollected(b, old) {
			return nil
		}
		if !authorized(ctx, a, "attest", b.Spec.SignerName) {
			return forbidden(c, "user not permitted to attest for signerName %q", b.Spec.SignerName)
		}
		return nil
	})
}

// onlyCollected tells that nothing but what garbage collection needs has changed.
func onlyCollected(b, old *certificatesv1.ClusterTrustBundle) bool {
	now := b.DeepCopy()
	now.OwnerReferences, now.Finalizers, now.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
	now.ResourceVersion, now.Generation = old.ResourceVersion, old.Generation
	return equality.Semantic.DeepEqual(now, old)
}
