package etcd_test

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/millracetest"
	"github.com/millrace/millrace/proof/internal/network"
)

func TestADiskThatFillsIsToldAndForgottenWhenThereIsRoomAgain(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=40m"); err != nil {
		t.Skipf("no disk can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c := millracetest.Start(t, millrace.Options{Data: filepath.Join(dir, "data"), Controllers: []string{}, NoScheduler: true})
	config := c.Config()
	config.WrapTransport = network.WithoutRetryAfter
	maps := newMaps(t, config)
	if _, err := maps.Create(t.Context(), configMapNamed("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	if err := syscall.Fallocate(int(ballast.Fd()), 0, 0, 20<<20); err != nil {
		t.Fatal(err)
	}
	// The log goes on in the space that it has reserved for itself, 16 MiB. Zeros would be compressed to nothing.
	large := configMapNamed("refused")
	large.BinaryData = map[string][]byte{"k": make([]byte, 500_000)}
	if _, err := rand.Read(large.BinaryData["k"]); err != nil {
		t.Fatal(err)
	}
	within(t, "a write is refused", func() bool {
		_, err := maps.Create(t.Context(), large, metav1.CreateOptions{})
		if err == nil {
			return maps.Delete(t.Context(), "refused", metav1.DeleteOptions{}) != nil // the disk was not full yet
		}
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != http.StatusInsufficientStorage {
			t.Fatalf("a write on a full disk is answered with %v", err)
		}
		return true
	})
	if code := status(t, c, "/readyz"); code != http.StatusInternalServerError {
		t.Errorf("readyz says %d", code)
	}
	if code := status(t, c, "/livez"); code != http.StatusOK {
		t.Errorf("livez says %d", code)
	}
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("reading from a full disk: %v", err)
	}
	if err := maps.Delete(t.Context(), "kept", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting on a full disk: %v", err)
	}
	if err := ballast.Truncate(0); err != nil {
		t.Fatal(err)
	}
	within(t, "a write is taken", func() bool {
		_, err := maps.Create(t.Context(), configMapNamed("again"), metav1.CreateOptions{})
		return err == nil
	})
	if code := status(t, c, "/readyz"); code != http.StatusOK {
		t.Errorf("readyz says %d", code)
	}
}

// within waits until something holds.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(again) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}
