package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

// signingRequest returns a new request as a client would send it.
func signingRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func body(spec string) string {
	return `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"r"},"spec":{` + spec + `}}`
}

func TestSigningRequestsAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	der := signingRequest(t)
	good := body(`"request":"` + der + `","signerName":"a.example/b","usages":["client auth"]`)
	const approved = `{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "nothing", Body: body(`"request":"eA=="`), Want: []string{
			`FieldValueInvalid spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST`,
			"FieldValueRequired spec.usages: Required value", "FieldValueRequired spec.signerName: Required value"}},
		{Name: "signer", Body: body(`"request":"` + der + `","signerName":"plain","usages":["client auth","client auth"],"expirationSeconds":5`), Want: []string{
			`FieldValueDuplicate spec.usages[1]: Duplicate value: "client auth"`,
			`FieldValueInvalid spec.signerName: Invalid value: "plain": must be a fully qualified domain and path of the form 'example.com/signer-name'`,
			"FieldValueInvalid spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 600 seconds (10 minutes)"}},
		{Name: "approved where it may be", Body: good, View: "approval", Change: approved},
		{Name: "approved and denied", Body: good, View: "approval", Change: `{"status":{"conditions":[{"type":"Approved","status":"True"},{"type":"Denied","status":"True"}]}}`, Want: []string{
			`FieldValueInvalid status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`}},
		{Name: "half approved", Body: good, View: "approval", Change: `{"status":{"conditions":[{"type":"Approved","status":"False"}]}}`, Want: []string{
			`FieldValueNotSupported status.conditions[0].status: Unsupported value: "False": supported values: "True"`}},
		{Name: "not a certificate", Body: good, View: "status", Change: `{"status":{"certificate":"eA=="}}`, Want: []string{
			`FieldValueInvalid status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`}},
	})
}

func TestServerNotesWhoAsksAndOnlyApprovalDecides(t *testing.T) {
	kind := SigningRequests()
	old := resourcetest.Made(t, Kinds(), body(`"username":"mallory","request":"`+signingRequest(t)+`","signerName":"a.example/b","usages":["client auth"]`)).(*request)
	if old.Spec.Username != "admin" || !slices.Equal(old.Spec.Groups, []string{"system:masters"}) {
		t.Errorf("asked by %s %v", old.Spec.Username, old.Spec.Groups)
	}
	const verdict = `{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`
	for view, want := range map[string][]string{
		"approval": nil,
		"status":   {`FieldValueForbidden status.conditions: Forbidden: updates may not add a condition of type "Approved"`},
	} {
		now := resourcetest.Changed(t, kind.Faces[0], old, verdict)
		if got := resourcetest.Causes(resourcetest.Update(kind, kind.Views[view], now, old)); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", view, got, want)
		}
	}
	approved := old.DeepCopy()
	approved.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
	errs := resourcetest.Causes(resourcetest.Update(kind, kind.Views["approval"], old.DeepCopy(), approved))
	if !slices.Equal(errs, []string{`FieldValueForbidden status.conditions: Forbidden: updates may not remove a condition of type "Approved"`}) {
		t.Errorf("taking an approval back: %q", errs)
	}
}
