package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func anchor(t *testing.T, authority bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: authority, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestTrustBundlesHoldAuthoritiesUnderTheNamesOfTheirSigners(t *testing.T) {
	good, other, leaf := anchor(t, true), anchor(t, true), anchor(t, false)
	for name, c := range map[string]struct {
		name, signer, text string
		want               []string
	}{
		"a bundle":             {"b", "", good + other, nil},
		"a signer's":           {"a.example:s:b", "a.example/s", good, nil},
		"another name":         {"b", "a.example/s", good, []string{`FieldValueInvalid metadata.name: Invalid value: "b": ClusterTrustBundle for signerName a.example/s must be named with prefix a.example:s:`}},
		"a signer's name":      {"a.example:s:b", "", good, []string{`FieldValueInvalid metadata.name: Invalid value: "a.example:s:b": ClusterTrustBundle without signer name must not have ":" in its name`}},
		"nothing":              {"b", "", "", []string{`FieldValueInvalid spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided`}},
		"twice the same":       {"b", "", good + good, []string{`FieldValueInvalid spec.trustBundle: Invalid value: "<value omitted>": duplicate trust anchor (indices [0 1])`}},
		"none of an authority": {"b", "", good + leaf, []string{`FieldValueInvalid spec.trustBundle: Invalid value: "<value omitted>": entry 1 does not have the CA bit set`}},
		"a key": {"b", "", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"})),
			[]string{`FieldValueInvalid spec.trustBundle: Invalid value: "<value omitted>": entry 0 has bad block type: PRIVATE KEY`}},
	} {
		b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: c.signer, TrustBundle: c.text}}
		if got := resourcetest.Causes(checkBundle(b, true)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
