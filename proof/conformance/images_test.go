//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// TestImagesCanBePulled makes the images of a small root directory, and pulls one with a layer of its own.
func TestImagesCanBePulled(t *testing.T) {
	k := kit{dir: t.TempDir()}
	root := k.path("root")
	for _, d := range []string{k.path("bin"), root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	programs := map[string]string{k.bin("sh"): "a shell", filepath.Join(root, "a"): "a file"}
	for _, name := range []string{"csidriver", "csi-provisioner", "csi-attacher", "csi-resizer", "coredns", "regression-issue-74839"} {
		programs[k.bin(name)] = name
	}
	for path, text := range programs {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", filepath.Join(root, "c")); err != nil {
		t.Fatal(err)
	}
	if err := k.makeImages(t.Context()); err != nil {
		t.Fatal(err)
	}

	b, err := os.ReadFile(k.path(indexFile))
	if err != nil {
		t.Fatal(err)
	}
	var index map[string]content
	if err := json.Unmarshal(b, &index); err != nil {
		t.Fatal(err)
	}
	registry := k.registry(index)
	var manifest struct {
		Config content
		Layers []content
	}
	if err := json.Unmarshal(pull(t, registry, "/v2/e2e-test-images/busybox/manifests/1.0", manifestType, index["busybox"].Digest), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Layers) != 2 {
		t.Fatalf("busybox has %d layers, want the root directory and its shell", len(manifest.Layers))
	}
	files := make(map[string]string)
	for _, l := range manifest.Layers {
		unpack(t, pull(t, registry, "/v2/e2e-test-images/busybox/blobs/"+l.Digest, "", l.Digest), files)
	}
	pull(t, registry, "/v2/e2e-test-images/busybox/blobs/"+manifest.Config.Digest, "", manifest.Config.Digest)
	want := map[string]string{"a": "a file", "b": "link to a", "c": "link to a", "usr/bin/sh": "a shell"}
	if fmt.Sprint(files) != fmt.Sprint(want) {
		t.Errorf("busybox has the files %v, want %v", files, want)
	}
	pull(t, registry, "/v2/perl/manifests/5.26", manifestType, index[anyImage].Digest)
}

// pull gets content and checks its digest, and its type if one is wanted.
func pull(t *testing.T, registry http.Handler, path, mediaType, digest string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	registry.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(w.Body.Bytes())); w.Code != 200 || got != digest {
		t.Fatalf("GET %s: %d with digest %s, want %s", path, w.Code, got, digest)
	}
	if got := w.Header().Get("Content-Type"); mediaType != "" && got != mediaType {
		t.Errorf("GET %s: content type %s, want %s", path, got, mediaType)
	}
	return w.Body.Bytes()
}

func unpack(t *testing.T, layer []byte, files map[string]string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(layer))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Linkname != "" {
			text = []byte("link to " + h.Linkname)
		}
		files[h.Name] = string(text)
	}
}
