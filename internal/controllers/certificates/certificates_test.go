package certificates_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/certificates"
	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/millracetest"
)

// authority returns a CA that is valid for some time.
func authority(t *testing.T, life time.Duration) func() (certificates.Authority, error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return func() (certificates.Authority, error) {
		return certificates.Authority{Certificate: certificate, Key: key}, nil
	}
}

// asked returns a request of the administrator.
func asked(t *testing.T, name, signer string, usages []certificatesv1.KeyUsage, template *x509.CertificateRequest) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: signer, Usages: usages,
	}}
}

var (
	forClients = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	forServers = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
	node       = &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}}
)

// world is a cluster with the loops.
func world(t *testing.T, life time.Duration) *looptest.Server {
	s := looptest.New(t, millracetest.API(t))
	looptest.Start(t, s.Clients(), certificates.Approving, certificates.Cleaner, certificates.Signing{Authority: authority(t, life)}.Entry())
	return s
}

func ask(t *testing.T, s *looptest.Server, r *certificatesv1.CertificateSigningRequest, approve bool) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	requests := s.Kube.CertificatesV1().CertificateSigningRequests()
	made, err := requests.Create(t.Context(), r, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if approve {
		made.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True", Reason: "Test"}}
		if _, err := requests.UpdateApproval(t.Context(), made.Name, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	made, err = requests.Get(t.Context(), made.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// state returns the state of a request.
func state(r *certificatesv1.CertificateSigningRequest) string {
	out := ""
	for _, c := range r.Status.Conditions {
		out += string(c.Type) + " " + c.Reason + ": " + c.Message + "; "
	}
	return out
}

func issued(t *testing.T, r *certificatesv1.CertificateSigningRequest) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(r.Status.Certificate)
	if block == nil {
		t.Fatalf("%s has no certificate: %s", r.Name, state(r))
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAKubeletsClientCertificateIsApprovedAndSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := world(t, 24*365*time.Hour)
		r := ask(t, s, asked(t, "n", certificatesv1.KubeAPIServerClientKubeletSignerName, forClients, node), false)
		if got, want := state(r), "Approved AutoApproved: Auto approving kubelet client certificate after SubjectAccessReview.; "; got != want {
			t.Errorf("it is %q, expected %q", got, want)
		}
		c := issued(t, r)
		if c.Subject.CommonName != "system:node:n" || !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || c.KeyUsage != x509.KeyUsageDigitalSignature || c.IsCA {
			t.Errorf("the certificate is %+v", c)
		}
	})
}

func TestOtherRequestsAreNotApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := world(t, 24*365*time.Hour)
		other := *node
		other.DNSNames = []string{"n"}
		for name, r := range map[string]*certificatesv1.CertificateSigningRequest{
			"serving":       asked(t, "serving", certificatesv1.KubeletServingSignerName, forServers, &other),
			"another-name":  asked(t, "another-name", certificatesv1.KubeAPIServerClientKubeletSignerName, forClients, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "mallory", Organization: []string{"system:nodes"}}}),
			"more-groups":   asked(t, "more-groups", certificatesv1.KubeAPIServerClientKubeletSignerName, forClients, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes", "system:masters"}}}),
			"more-usages":   asked(t, "more-usages", certificatesv1.KubeAPIServerClientKubeletSignerName, append(forServers, certificatesv1.UsageClientAuth), node),
			"with-an-alias": asked(t, "with-an-alias", certificatesv1.KubeAPIServerClientKubeletSignerName, forClients, &other),
			"a-user":        asked(t, "a-user", certificatesv1.KubeAPIServerClientSignerName, forClients, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}),
		} {
			if got := state(ask(t, s, r, false)); got != "" {
				t.Errorf("%s is %s", name, got)
			}
		}
	})
}

func TestASignerRefusesUnsuitableRequestsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := world(t, 24*365*time.Hour)
		for _, c := range []struct {
			name, signer, want string
			usages             []certificatesv1.KeyUsage
			template           *x509.CertificateRequest
		}{
			{"server-as-client", certificatesv1.KubeAPIServerClientSignerName, "invalid usage for client certificate: server auth", forServers, node},
			{"no-client", certificatesv1.KubeAPIServerClientSignerName, "missing required usage for client certificate: client auth", forServers[:1], node},
			{"no-host", certificatesv1.KubeletServingSignerName, "DNS or IP subjectAltName is required", forServers, node},
			{"usages", certificatesv1.KubeletServingSignerName, "usages did not match [digital signature key encipherment server auth]", forClients, &x509.CertificateRequest{Subject: node.Subject, DNSNames: []string{"n"}}},
			{"no-group", certificatesv1.KubeAPIServerClientKubeletSignerName, "subject organization is not system:nodes", forClients, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n"}}},
		} {
			r := ask(t, s, asked(t, c.name, c.signer, c.usages, c.template), true)
			if got, want := state(r), "Approved Test: ; Failed SignerValidationFailure: "+c.want+"; "; got != want {
				t.Errorf("%s is %q, expected %q", c.name, got, want)
			}
			if len(r.Status.Certificate) > 0 {
				t.Errorf("%s is signed", c.name)
			}
		}
		if r := ask(t, s, asked(t, "foreign", "example.com/signer", forClients, node), true); len(r.Status.Certificate) > 0 {
			t.Error("the request for another signer is signed")
		}
	})
}

func TestCertificatesAreValidNoLongerThanRequestedAndThanTheirCA(t *testing.T) {
	for name, c := range map[string]struct {
		seconds         int32
		authority, want time.Duration
	}{
		"the signer's choice":           {0, 10 * 365 * 24 * time.Hour, 365*24*time.Hour - 5*time.Minute},
		"what was asked for":            {86400, 10 * 365 * 24 * time.Hour, 24*time.Hour - 5*time.Minute},
		"short ones in full":            {3600, 10 * 365 * 24 * time.Hour, time.Hour},
		"more than there is":            {1 << 30, 10 * 365 * 24 * time.Hour, 365*24*time.Hour - 5*time.Minute},
		"an authority that ends before": {0, 48 * time.Hour, 48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := world(t, c.authority)
				began := time.Now()
				r := asked(t, "r", certificatesv1.KubeAPIServerClientKubeletSignerName, forClients, node)
				if c.seconds > 0 {
					r.Spec.ExpirationSeconds = &c.seconds
				}
				got := issued(t, ask(t, s, r, false)).NotAfter.Sub(began)
				if d := got - c.want; d < -2*time.Second || d > 2*time.Second {
					t.Errorf("it lives for %v, expected %v", got, c.want)
				}
			})
		})
	}
}

func TestRequestsAreCleanedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := world(t, 24*365*time.Hour)
		requests := s.Kube.CertificatesV1().CertificateSigningRequests()
		ask(t, s, asked(t, "issued", certificatesv1.KubeAPIServerClientKubeletSignerName, forClients, node), false)
		ask(t, s, asked(t, "pending", certificatesv1.KubeAPIServerClientSignerName, forClients, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}), false)
		ask(t, s, asked(t, "unsigned", "example.com/signer", forClients, node), true)
		has := func(name string) bool {
			_, err := requests.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			return err == nil
		}
		time.Sleep(50 * time.Minute)
		if !has("issued") || !has("pending") || !has("unsigned") {
			t.Error("something is gone within the hour")
		}
		time.Sleep(time.Hour)
		if has("issued") || !has("pending") || !has("unsigned") {
			t.Error("after an hour only what was issued goes")
		}
		time.Sleep(24 * time.Hour)
		if has("pending") || has("unsigned") {
			t.Error("after a day something that nobody cares for is there")
		}
	})
}

func TestOldRequestsForCertificatesOfPodsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		looptest.Start(t, s.Clients(), certificates.PodCleaner)
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			t.Fatal(err)
		}
		requests := s.Kube.CertificatesV1().PodCertificateRequests("default")
		for _, name := range []string{"first", "second"} {
			r := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: "a.example/s", PodName: "p", PodUID: "u", ServiceAccountName: "s", ServiceAccountUID: "u", NodeName: "n", NodeUID: "u", StubPKCS10Request: stub,
			}}
			if _, err := requests.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
		}
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{4 * time.Minute, 2}, {2 * time.Minute, 1}, {5 * time.Minute, 0}} {
			time.Sleep(c.after)
			list, err := requests.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != c.want {
				t.Errorf("%d are left, not %d: %v", len(list.Items), c.want, err)
			}
		}
	})
}
