package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func newKey(t *testing.T, c elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func stub(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func podRequestFor(t *testing.T, key crypto.Signer) *podRequest {
	return &podRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}, Spec: certificatesv1.PodCertificateRequestSpec{
		SignerName: "a.example/s", PodName: "p", PodUID: "pu", ServiceAccountName: "s", ServiceAccountUID: "su", NodeName: "o", NodeUID: "ou",
		MaxExpirationSeconds: new(defaultPodCertificateSeconds), StubPKCS10Request: stub(t, key),
	}}
}

// says checks that there is exactly one error with a text, or none if there is nothing to say.
func says(t *testing.T, what string, errs field.ErrorList, want string) {
	t.Helper()
	if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want)) {
		t.Errorf("%s: got %v, want %q", what, errs, want)
	}
}

func TestAPodCertificateRequestNamesAllAndProvesThatItHasTheKey(t *testing.T) {
	key := newKey(t, elliptic.P256())
	for what, c := range map[string]struct {
		do   func(*certificatesv1.PodCertificateRequestSpec)
		want string
	}{
		"all":       {func(*certificatesv1.PodCertificateRequestSpec) {}, ""},
		"no signer": {func(s *certificatesv1.PodCertificateRequestSpec) { s.SignerName = "" }, "spec.signerName: Required value"},
		"no pod":    {func(s *certificatesv1.PodCertificateRequestSpec) { s.PodUID = "" }, `spec.podUID: Invalid value: "": must not be empty`},
		"a long uid": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.NodeUID = "12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901"
		}, "spec.nodeUID: Too long"},
		"a strange name": {func(s *certificatesv1.PodCertificateRequestSpec) { s.ServiceAccountName = "a/b" }, "spec.serviceAccountName: Invalid value"},
		"too short":      {func(s *certificatesv1.PodCertificateRequestSpec) { *s.MaxExpirationSeconds = 3599 }, "must be in the range [3600, 7862400]"},
		"too long":       {func(s *certificatesv1.PodCertificateRequestSpec) { *s.MaxExpirationSeconds = 7862401 }, "must be in the range [3600, 7862400]"},
		"of Kubernetes": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.SignerName, *s.MaxExpirationSeconds = "x.kubernetes.io/s", 86401
		}, "must be in the range [3600, 86400]"},
		"no key":     {func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = nil }, "exactly one of (stubPKCS10Request)"},
		"no request": {func(s *certificatesv1.PodCertificateRequestSpec) { s.StubPKCS10Request = []byte("x") }, "must be a valid PKCS#10 CSR"},
		"a small key": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.StubPKCS10Request = stub(t, newKey(t, elliptic.P224()))
		}, "elliptic public keys must use curve"},
		"a false proof": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.StubPKCS10Request[len(s.StubPKCS10Request)-1] ^= 1
		}, "invalid signature"},
		"too large": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.StubPKCS10Request = make([]byte, maxStubRequest+1)
		}, "spec.stubPKCS10Request: Too long"},
		"a plain key": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.UnverifiedUserAnnotations = map[string]string{"k": "v"}
		}, "must be a domain-prefixed key"},
		"a domain's key": {func(s *certificatesv1.PodCertificateRequestSpec) {
			s.UnverifiedUserAnnotations = map[string]string{"a.example/K": "v"}
		}, ""},
		"no life to last": {func(s *certificatesv1.PodCertificateRequestSpec) { s.MaxExpirationSeconds = nil }, "spec.maxExpirationSeconds: Required value"},
	} {
		r := podRequestFor(t, key)
		c.do(&r.Spec)
		says(t, what, checkPodRequest(r), c.want)
	}
}

// issue returns a status with a certificate for a key.
func issue(t *testing.T, key crypto.PublicKey, life time.Duration, names ...string) certificatesv1.PodCertificateRequestStatus {
	t.Helper()
	now := time.Now().Truncate(time.Second).UTC()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(life), DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, newKey(t, elliptic.P256()))
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	return certificatesv1.PodCertificateRequestStatus{
		Conditions:       ended("Issued"),
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        at(0), NotAfter: at(life), BeginRefreshAt: at(life / 2),
	}
}

func ended(how string) []metav1.Condition {
	return []metav1.Condition{{Type: how, Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}}
}

func TestAPodCertificateRequestEndsOnceWithWhatWasRequested(t *testing.T) {
	key := newKey(t, elliptic.P384())
	good := issue(t, key.Public(), time.Hour)
	type status = certificatesv1.PodCertificateRequestStatus
	for what, c := range map[string]struct {
		status status
		do     func(*status)
		want   string
	}{
		"issued":      {good, func(*status) {}, ""},
		"another key": {issue(t, newKey(t, elliptic.P384()).Public(), time.Hour), func(*status) {}, "was not issued to the requested public key"},
		"short":       {issue(t, key.Public(), time.Hour-time.Second), func(*status) {}, "must be >= 1 hour"},
		"long":        {issue(t, key.Public(), 25*time.Hour), func(*status) {}, "must be <= spec.maxExpirationSeconds (86400)"},
		"names":       {issue(t, key.Public(), time.Hour, "a.example."), func(*status) {}, "should not start or end with '.'"},
		"nothing":     {good, func(s *status) { s.CertificateChain = "" }, "must contain at least one certificate"},
		"a key in it": {good, func(s *status) { s.CertificateChain += "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n" }, "must consist entirely of"},
		"rubbish behind": {good, func(s *status) {
			s.CertificateChain += "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
		}, "intermediate certificate does not parse"},
		"no time":         {good, func(s *status) { s.BeginRefreshAt = nil }, "status.beginRefreshAt: Required value"},
		"another time":    {good, func(s *status) { s.NotAfter = &metav1.Time{Time: s.NotAfter.Add(time.Second)} }, "must be set to the NotAfter time"},
		"refreshed late":  {good, func(s *status) { s.BeginRefreshAt = s.NotAfter }, "must be at least 10 minutes before status.notAfter"},
		"refreshed early": {good, func(s *status) { s.BeginRefreshAt = s.NotBefore }, "must be at least 10 minutes after status.notBefore"},
		"denied":          {status{Conditions: ended("Denied")}, func(*status) {}, ""},
		"denied, issued":  {good, func(s *status) { s.Conditions = ended("Denied") }, "non-condition status fields must be empty"},
		"a false end":     {status{Conditions: ended("Failed")}, func(s *status) { s.Conditions[0].Status = metav1.ConditionFalse }, `Unsupported value: "False"`},
		"another end":     {status{Conditions: ended("Done")}, func(*status) {}, `Unsupported value: "Done"`},
		"no end":          {good, func(s *status) { s.Conditions = nil }, "status is immutable unless transitioning"},
	} {
		old := podRequestFor(t, key)
		r := old.DeepCopy()
		c.status.DeepCopyInto(&r.Status)
		c.do(&r.Status)
		says(t, what, checkPodOutcome(r, old), c.want)
	}
	over := podRequestFor(t, key)
	over.Status = good
	again := over.DeepCopy()
	says(t, "the same again", checkPodOutcome(again, over), "")
	again.Status.Conditions = ended("Failed")
	says(t, "another end", checkPodOutcome(again, over), "immutable after PodCertificateRequest is issued, denied, or failed")
}

func TestTheStateOfAPodCertificateRequestIsAColumn(t *testing.T) {
	r := podRequestFor(t, newKey(t, elliptic.P256()))
	for _, state := range []string{"Pending", "Issued", "Denied", "Failed"} {
		if state != "Pending" {
			r.Status.Conditions = ended(state)
		}
		if got := podRequestRow(r).Cells[5]; got != state {
			t.Errorf("got %v, want %s", got, state)
		}
	}
}
