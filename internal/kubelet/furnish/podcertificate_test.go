package furnish_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/kubelet/furnish"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/millracetest"
)

// reasons collects the reasons of events.
type reasons []string

func (r *reasons) Eventf(_ runtime.Object, _, reason, _ string, _ ...any) { *r = append(*r, reason) }

// certified is a pod whose volume asks for a certificate, on a node of its own with a signer.
type certified struct {
	*testing.T
	kube    kubernetes.Interface
	f       *furnish.Furnisher
	pod     *corev1.Pod
	changed int
	events  reasons
}

func newCertified(t *testing.T, keyType string) *certified {
	t.Helper()
	kube, err := kubernetes.NewForConfig(millracetest.API(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &certified{T: t, kube: kube, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}}
	_, err = kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}, metav1.CreateOptions{})
	c.must(err)
	_, err = kube.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	c.must(err)
	c.pod.Spec.ServiceAccountName = "robot"
	c.pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}}
	c.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
			SignerName: "a.example/s", KeyType: keyType, CredentialBundlePath: "all.pem", KeyPath: "key.pem", CertificateChainPath: "chain.pem",
			UserAnnotations: map[string]string{"a.example/k": "v"},
		}}},
	}}}}
	c.f = furnish.New(furnish.Options{
		Root: t.TempDir(), Kube: kube, Node: "here", Streaming: true, SecretsOnDisk: true, Record: &c.events, Changed: func(worker.Key) { c.changed++ },
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.f.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return c
}

func (c *certified) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// open is the one request that has not ended.
func (c *certified) open() *certificatesv1.PodCertificateRequest {
	c.Helper()
	list, err := c.kube.CertificatesV1().PodCertificateRequests("default").List(c.Context(), metav1.ListOptions{})
	c.must(err)
	var found *certificatesv1.PodCertificateRequest
	for i := range list.Items {
		if len(list.Items[i].Status.Conditions) == 0 {
			if found != nil {
				c.Fatal("there are two open requests")
			}
			found = &list.Items[i]
		}
	}
	if found == nil {
		c.Fatal("there is no open request")
	}
	return found
}

// end ends the open request: with a certificate of an hour, or as denied.
func (c *certified) end(how string) {
	c.Helper()
	r := c.open()
	r.Status.Conditions = []metav1.Condition{{Type: how, Status: metav1.ConditionTrue, Reason: "Reason", Message: "why", LastTransitionTime: metav1.Now()}}
	if how == "Issued" {
		asked, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
		c.must(err)
		authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		c.must(err)
		now := time.Now().Truncate(time.Second)
		at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
		template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), NotBefore: now, NotAfter: now.Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, asked.PublicKey, authority)
		c.must(err)
		block := &pem.Block{Type: "CERTIFICATE", Bytes: der, Headers: map[string]string{"x": "y"}}
		r.Status.CertificateChain = "before\n" + string(pem.EncodeToMemory(block)) + "behind\n"
		r.Status.NotBefore, r.Status.BeginRefreshAt, r.Status.NotAfter = at(0), at(30*time.Minute), at(time.Hour)
	}
	_, err := c.kube.CertificatesV1().PodCertificateRequests("default").UpdateStatus(c.Context(), r, metav1.UpdateOptions{})
	c.must(err)
	synctest.Wait()
}

// prepared prepares the pod, and returns one of its files.
func (c *certified) prepared(file string) (string, error) {
	if err := c.f.Prepare(c.Context(), c.pod); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(c.f.Directory("u", "v"), file))
	return string(text), err
}

func TestAPodStartsWithTheCertificateThatItsSignerIssues(t *testing.T) {
	for _, keyType := range []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072"} {
		synctest.Test(t, func(t *testing.T) {
			c := newCertified(t, keyType)
			for range 2 { // the second one asks for nothing new
				if _, err := c.prepared("all.pem"); err == nil || !strings.Contains(err.Error(), "not issued yet") {
					t.Fatalf("without a certificate: %v", err)
				}
			}
			s := c.open().Spec
			if s.PodName != "p" || s.PodUID != "u" || s.ServiceAccountName != "robot" || s.ServiceAccountUID == "" || s.NodeName != "here" || s.NodeUID == "" ||
				s.SignerName != "a.example/s" || s.UnverifiedUserAnnotations["a.example/k"] != "v" {
				t.Errorf("asked for %+v", s)
			}
			c.end("Issued")
			if c.changed == 0 {
				t.Error("nobody is told that the certificate is there")
			}
			all, err := c.prepared("all.pem")
			c.must(err)
			if _, err := tls.X509KeyPair([]byte(all), []byte(all)); err != nil {
				t.Errorf("the bundle: %v", err)
			}
			key, _ := c.prepared("key.pem")
			chain, _ := c.prepared("chain.pem")
			if all != key+chain || strings.Contains(all, "before") || strings.Contains(all, "x: y") {
				t.Errorf("the parts are not the whole, or more than keys and certificates: %s", all)
			}
		})
	}
}

func TestACertificateIsRenewedBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCertified(t, "ED25519")
		_, _ = c.prepared("all.pem")
		c.end("Issued")
		first, err := c.prepared("all.pem")
		c.must(err)
		time.Sleep(29 * time.Minute)
		if again, err := c.prepared("all.pem"); err != nil || again != first {
			t.Errorf("it is not the same as before: %v", err)
		}
		time.Sleep(7 * time.Minute)
		if again, err := c.prepared("all.pem"); err != nil || again != first {
			t.Errorf("it does not stay until there is another one: %v", err)
		}
		c.end("Issued")
		second, err := c.prepared("all.pem")
		if err != nil || second == first {
			t.Errorf("it is not renewed: %v", err)
		}
		time.Sleep(36 * time.Minute)
		_, _ = c.prepared("all.pem")
		c.end("Denied")
		if again, err := c.prepared("all.pem"); err != nil || again != second {
			t.Errorf("the pod does not keep what it has: %v", err)
		}
		time.Sleep(30 * time.Minute)
		_, _ = c.prepared("all.pem")
		_, _ = c.prepared("all.pem")
		if got := strings.Join(c.events, ","); got != "Denied,CertificateExpired" {
			t.Errorf("told %s", got)
		}
	})
}

func TestADeniedPodDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCertified(t, "ED25519")
		_, _ = c.prepared("all.pem")
		c.end("Denied")
		for range 2 {
			if _, err := c.prepared("all.pem"); err == nil || !strings.Contains(err.Error(), "Denied: Reason: why") {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestADeletedRequestIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCertified(t, "ED25519")
		_, _ = c.prepared("all.pem")
		before := c.open().Name
		c.must(c.kube.CertificatesV1().PodCertificateRequests("default").Delete(t.Context(), before, metav1.DeleteOptions{}))
		time.Sleep(2 * time.Minute)
		for range 2 { // it sees that it is gone, and asks again
			_, _ = c.prepared("all.pem")
		}
		if now := c.open().Name; now == before {
			t.Errorf("%s is still there", now)
		}
		c.must(c.f.Release(t.Context(), worker.Key{}, "u"))
		c.must(c.kube.CertificatesV1().PodCertificateRequests("default").Delete(t.Context(), c.open().Name, metav1.DeleteOptions{}))
		_, _ = c.prepared("all.pem") // a pod that comes again asks anew
		c.open()
	})
}
