package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/table"
)

type trustBundle = certificatesv1.ClusterTrustBundle

// maxBundle is the largest size of a bundle in bytes.
const maxBundle = 1 << 20

// TrustBundles contain authorities that pods can mount as a volume: those of a signer, or a bundle that a user has
// assembled.
func TrustBundles() *resource.Kind {
	return resource.Define(resource.Description[*trustBundle]{
		Group: certificatesv1.GroupName, Version: "v1", Kind: "ClusterTrustBundle", Resource: "clustertrustbundles", NoGeneration: true,
		Name: func(string, bool) []string { return nil }, // which names are valid depends on the signer
		Rules: resource.Rules[*trustBundle]{
			Validate: func(_ context.Context, b *trustBundle) field.ErrorList { return checkBundle(b, true) },
			ValidateUpdate: func(_ context.Context, b, old *trustBundle) field.ErrorList {
				errs := checkBundle(b, b.Spec.TrustBundle != old.Spec.TrustBundle)
				return append(errs, validation.ValidateImmutableField(b.Spec.SignerName, old.Spec.SignerName, field.NewPath("spec", "signerName"))...)
			},
		},
		Fields: []resource.Field{{Label: "spec.signerName"}},
		Columns: []table.Column{
			table.Name(),
			table.Text("SignerName", certificatesv1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"]),
		},
		Row: func(b *trustBundle) resource.Row {
			signer := b.Spec.SignerName
			if signer == "" {
				signer = table.None
			}
			return resource.Row{Cells: []any{b.Name, signer}}
		},
		Also: []resource.Serving[*trustBundle]{resource.Alike[*trustBundle, v1beta1.ClusterTrustBundle](v1beta1.SchemeGroupVersion.WithKind("ClusterTrustBundle"))},
	})
}

func checkBundle(b *trustBundle, content bool) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range check.TrustBundleName(b.Name, b.Spec.SignerName) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), b.Name, msg))
	}
	if b.Spec.SignerName != "" {
		errs = append(errs, check.Signer(b.Spec.SignerName, field.NewPath("spec", "signerName"))...)
	}
	if content {
		errs = append(errs, checkAnchors(b.Spec.TrustBundle, field.NewPath("spec", "trustBundle"))...)
	}
	return errs
}

// checkAnchors requires distinct CA certificates, and nothing else.
func checkAnchors(text string, path *field.Path) field.ErrorList {
	if len(text) > maxBundle {
		return field.ErrorList{field.TooLong(path, "", maxBundle)}
	}
	var errs field.ErrorList
	var order []string
	seen := map[string][]int{}
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if problem := anchorProblem(block, i); problem != "" {
			errs = append(errs, field.Invalid(path, "<value omitted>", problem))
			continue
		}
		if der := string(block.Bytes); !slices.Contains(order, der) {
			order = append(order, der)
		}
		seen[string(block.Bytes)] = append(seen[string(block.Bytes)], i)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(seen) == 0 {
		errs = append(errs, field.Invalid(path, "<value omitted>", "at least one trust anchor must be provided"))
	}
	for _, der := range order {
		if at := seen[der]; len(at) > 1 {
			errs = append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf("duplicate trust anchor (indices %v)", at)))
		}
	}
	return errs
}

// anchorProblem returns what is wrong with a PEM block of a bundle.
func anchorProblem(block *pem.Block, i int) string {
	if block.Type != "CERTIFICATE" {
		return fmt.Sprintf("entry %d has bad block type: %v", i, block.Type)
	}
	if len(block.Headers) > 0 {
		return fmt.Sprintf("entry %d has PEM block headers", i)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return fmt.Sprintf("entry %d does not parse as X.509", i)
	case !c.IsCA:
		return fmt.Sprintf("entry %d does not have the CA bit set", i)
	case !c.BasicConstraintsValid:
		return fmt.Sprintf("entry %d has invalid basic constraints", i)
	}
	return ""
}
