package trustbundle_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/controllers/internal/looptest"
	"github.com/millrace/millrace/internal/controllers/trustbundle"
	"github.com/millrace/millrace/millracetest"
)

func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestTheServersCACertificatesAreOneTrustBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := looptest.New(t, millracetest.API(t))
		mine, other := authority(t), authority(t)
		const signer = "kubernetes.io/kube-apiserver-serving"
		looptest.Create(s, "clustertrustbundles", "", &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes.io:kube-apiserver-serving:old"}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: string(other)},
		})
		looptest.Create(s, "clustertrustbundles", "", &certificatesv1.ClusterTrustBundle{
			ObjectMeta: metav1.ObjectMeta{Name: "others"}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: string(other)},
		})
		looptest.Start(t, s.Clients(), trustbundle.Options{Certificates: mine}.Entry())
		expect := func(when string) string {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			name := ""
			for _, b := range looptest.All[certificatesv1.ClusterTrustBundle](s, "clustertrustbundles") {
				if b.Spec.SignerName != signer {
					continue
				}
				if name != "" || b.Spec.TrustBundle != string(mine) || !strings.HasPrefix(b.Name, "kubernetes.io:kube-apiserver-serving:") {
					t.Errorf("%s there is %s", when, b.Name)
				}
				name = b.Name
			}
			return name
		}
		name := expect("at first")
		looptest.Edit(s, "clustertrustbundles", "", name, func(b *certificatesv1.ClusterTrustBundle) { b.Spec.TrustBundle = string(other) })
		expect("after a change")
		if err := s.Kube.CertificatesV1().ClusterTrustBundles().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if again := expect("after it was deleted"); again != name {
			t.Errorf("it is called %q, and was %q", again, name)
		}
	})
}
