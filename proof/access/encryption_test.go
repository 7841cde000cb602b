package access_test

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/server/store"
	"github.com/millrace/millrace/internal/server/store/journal"
)

// encryptedWith writes a configuration with AES-GCM keys. The first key encrypts.
func encryptedWith(t *testing.T, path string, keys ...string) millrace.EncryptionOptions {
	t.Helper()
	var all []string
	for _, k := range keys {
		all = append(all, "{name: "+k+", secret: "+base64.StdEncoding.EncodeToString([]byte(strings.Repeat(k, 32)))+"}")
	}
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [" + strings.Join(all, ", ") + "]}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return millrace.EncryptionOptions{File: path}
}

// kept reports whether a text is in any value of the store in a data directory, as it is on the disk.
func kept(t *testing.T, data, text string) (found bool) {
	t.Helper()
	s, err := journal.Open(journal.Options{Dir: filepath.Join(data, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.List(t.Context(), "/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all.Entries {
		found = found || bytes.Contains(e.Value, []byte(text))
	}
	return found
}

func TestSecretsAreEncryptedAtRestAndKeysRotate(t *testing.T) {
	directory := t.TempDir()
	data, config := filepath.Join(directory, "data"), filepath.Join(directory, "encryption.yaml")
	// during runs a function with a cluster that has these keys.
	during := func(do func(*cluster), keys ...string) {
		t.Helper()
		cluster, err := millrace.Start(t.Context(), millrace.Options{Data: data, Controllers: []string{}, NoScheduler: true, Encryption: encryptedWith(t, config, keys...)})
		if err != nil {
			t.Fatal(err)
		}
		c := of(t, cluster)
		do(c)
		c.must(cluster.Close())
	}
	during(func(c *cluster) {
		for _, name := range []string{"one", "two"} {
			_, err := c.admin.CoreV1().Secrets("default").Create(c.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"x": []byte("very-secret-text")}}, metav1.CreateOptions{})
			c.must(err)
		}
		_, err := c.admin.CoreV1().ConfigMaps("default").Create(c.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"x": "not-secret-text"}}, metav1.CreateOptions{})
		c.must(err)
	}, "a")
	if kept(t, data, "very-secret-text") || !kept(t, data, "not-secret-text") || !kept(t, data, "k8s:enc:aesgcm:v1:a:") {
		t.Error("a secret is kept in plain text, or nothing is kept at all")
	}
	during(func(c *cluster) {
		one, err := c.admin.CoreV1().Secrets("default").Get(c.ctx, "one", metav1.GetOptions{})
		c.must(err)
		for i, again := range []bool{true, false} { // a stale object is written although nothing changes, and then not again
			next, err := c.admin.CoreV1().Secrets("default").Update(c.ctx, one.DeepCopy(), metav1.UpdateOptions{})
			c.must(err)
			if (next.ResourceVersion != one.ResourceVersion) != again {
				t.Errorf("update %d: from %s to %s", i, one.ResourceVersion, next.ResourceVersion)
			}
			one = next
		}
	}, "b", "a")
	during(func(c *cluster) {
		one, err := c.admin.CoreV1().Secrets("default").Get(c.ctx, "one", metav1.GetOptions{})
		c.must(err)
		if string(one.Data["x"]) != "very-secret-text" {
			t.Errorf("%v", one.Data)
		}
		if _, err = c.admin.CoreV1().Secrets("default").Get(c.ctx, "two", metav1.GetOptions{}); !apierrors.IsInternalError(err) {
			t.Errorf("a secret whose key is gone: %v", err)
		}
		if _, err = c.admin.CoreV1().ConfigMaps("default").Get(c.ctx, "one", metav1.GetOptions{}); err != nil {
			t.Errorf("another object is harmed: %v", err)
		}
		c.must(c.admin.CoreV1().Secrets("default").Delete(c.ctx, "two", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)}))
		if list, err := c.admin.CoreV1().Secrets("default").List(c.ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
			t.Errorf("%v, %v", list, err)
		}
	}, "b")
}
