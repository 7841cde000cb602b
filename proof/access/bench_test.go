package access_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/millrace/millrace"

	"github.com/millrace/millrace/internal/cputime"
)

// running starts a cluster without loops, and returns a client of a user who may read namespaces.
func running(b *testing.B, o millrace.Options) (*millrace.Cluster, kubernetes.Interface) {
	b.Helper()
	o.Controllers, o.NoScheduler = []string{}, true
	c, err := millrace.Start(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	config, err := c.User("system:kube-controller-manager")
	if err != nil {
		b.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	return c, k
}

// BenchmarkGet measures a get by a client with a certificate: without authorization, with RBAC, and with RBAC and
// audit. Server and client are one process, and their CPU time counts together.
func BenchmarkGet(b *testing.B) {
	directory := b.TempDir()
	policy := filepath.Join(directory, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	audited := millrace.AuditOptions{PolicyFile: policy}
	audited.Log.Path = filepath.Join(directory, "audit.log")
	for _, with := range []struct {
		name string
		o    millrace.Options
	}{{"AlwaysAllow", millrace.Options{Authorization: []string{"AlwaysAllow"}}}, {"RBAC", millrace.Options{}}, {"RBAC+audit", millrace.Options{Audit: audited}}} {
		b.Run(with.name, func(b *testing.B) {
			_, k := running(b, with.o)
			began := cputime.Process()
			for b.Loop() {
				if _, err := k.CoreV1().Namespaces().Get(b.Context(), "default", metav1.GetOptions{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cputime.Process()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkSecrets compares encrypted secrets with plain ones, on disk.
func BenchmarkSecrets(b *testing.B) {
	for _, with := range []string{"plain", "aesgcm"} {
		o := millrace.Options{Data: b.TempDir()}
		if with != "plain" {
			path := filepath.Join(b.TempDir(), "encryption.yaml")
			text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: a, secret: YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=}]}\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
			o.Encryption.File = path
		}
		c, _ := running(b, o)
		k, err := kubernetes.NewForConfig(c.InProcess())
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		create := func(b *testing.B) {
			n++
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", n)}, Data: map[string][]byte{"k": []byte(strings.Repeat("x", 1000))}}
			if _, err := k.CoreV1().Secrets("default").Create(b.Context(), s, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run("create/"+with, func(b *testing.B) {
			began := cputime.Process()
			for b.Loop() {
				create(b)
			}
			b.ReportMetric(float64((cputime.Process()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
		for n < 500 {
			create(b)
		}
		b.Run("list/"+with, func(b *testing.B) {
			began := cputime.Process()
			for b.Loop() {
				if _, err := k.CoreV1().Secrets("default").List(b.Context(), metav1.ListOptions{Limit: 500}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cputime.Process()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
