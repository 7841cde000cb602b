package furnish_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace/internal/kubelet/furnish"
	"github.com/millrace/millrace/internal/kubelet/worker"
	"github.com/millrace/millrace/millracetest"
)

func anchor(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestTrustBundlesReachThePodsThatUseThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, err := kubernetes.NewForConfig(millracetest.API(t))
		if err != nil {
			t.Fatal(err)
		}
		one, two, three := anchor(t), anchor(t), anchor(t)
		bundles := kube.CertificatesV1().ClusterTrustBundles()
		put := func(name, signer, text string) {
			t.Helper()
			b := &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": "pods"}}, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text}}
			if _, err := bundles.Create(t.Context(), b, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		put("plain", "", one)
		put("a.example:s:1", "a.example/s", one+two)
		changed := 0
		f := furnish.New(furnish.Options{Root: t.TempDir(), Kube: kube, Streaming: true, SecretsOnDisk: true, Changed: func(worker.Key) { changed++ }})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		defer func() { stop(); <-ended }()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}}
		name, missing, signer, yes := "plain", "missing", "a.example/s", true
		get := func(s corev1.ClusterTrustBundleProjection) (string, error) {
			s.Path = "ca.crt"
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &s}},
			}}}}
			if err := f.Prepare(t.Context(), pod); err != nil {
				return "", err
			}
			text, err := os.ReadFile(filepath.Join(f.Directory("u", "v"), "ca.crt"))
			return string(text), err
		}
		pods := &metav1.LabelSelector{MatchLabels: map[string]string{"for": "pods"}}
		if got, err := get(corev1.ClusterTrustBundleProjection{Name: &name}); err != nil || got != one {
			t.Errorf("by name: %q, %v", got, err)
		}
		if got, err := get(corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: pods}); err != nil || len(got) != len(one+two) || !strings.Contains(got, one) || !strings.Contains(got, two) {
			t.Errorf("by signer: %q, %v", got, err)
		}
		if _, err := get(corev1.ClusterTrustBundleProjection{Name: &missing}); err == nil || !strings.HasSuffix(err.Error(), `clustertrustbundle "missing" not found`) {
			t.Errorf("what is missing: %v", err)
		}
		if got, err := get(corev1.ClusterTrustBundleProjection{Name: &missing, Optional: &yes}); err != nil || got != "" {
			t.Errorf("what may be missing: %q, %v", got, err)
		}
		if _, err := get(corev1.ClusterTrustBundleProjection{SignerName: &signer}); err == nil || !strings.HasSuffix(err.Error(), "matched zero trust anchors") {
			t.Errorf("without a selector: %v", err)
		}
		before := changed
		put("a.example:s:2", "a.example/s", two+three)
		synctest.Wait()
		if got, err := get(corev1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: pods}); err != nil || strings.Count(got, "BEGIN CERTIFICATE") != 3 || changed == before {
			t.Errorf("after one more: %d told, %q, %v", changed-before, got, err)
		}
	})
}
