package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
)

func main() {
	program := flag.String("program", "", "the static program")
	name := flag.String("name", "", "the image's name and tag")
	out := flag.String("out", "", "the archive to write")
	entrypoint := flag.String("entrypoint", "/program", "the entrypoint and its arguments, separated by commas")
	flag.Parse()
	if err := build(*program, *name, *out, strings.Split(*entrypoint, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    map[string]string `json:"platform,omitempty"`
}

// archive is an OCI image layout that is being built.
type archive struct {
	files map[string][]byte
	order []string
}

func (a *archive) put(path string, content []byte) {
	a.files[path] = content
	a.order = append(a.order, path)
}

func (a *archive) blob(kind string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	a.put("blobs/sha256/"+digest, content)
	return descriptor{MediaType: kind, Digest: "sha256:" + digest, Size: len(content)}
}

func build(program, name, out string, entrypoint []string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := layerOf(content)
	if err != nil {
		return err
	}
	a := &archive{files: map[string][]byte{}}
	layerBlob := a.blob("application/vnd.oci.image.layer.v1.tar", layer)
	config := encode(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint, "Env": []string{"PATH=/bin:/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	})
	configBlob := a.blob("application/vnd.oci.image.config.v1+json", config)
	manifest := a.blob("application/vnd.oci.image.manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": configBlob, "layers": []descriptor{layerBlob},
	}))
	manifest.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	manifest.Platform = map[string]string{"architecture": runtime.GOARCH, "os": "linux"}
	a.put("index.json", encode(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}}))
	a.put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	return a.write(out)
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only maps and strings: encoding cannot fail
	}
	return text
}

// layerOf makes a root file system with the program under all its names, and the files that programs expect.
func layerOf(program []byte) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, directory := range []string{"bin/", "etc/", "tmp/", "proc/", "sys/", "dev/", "var/"} {
		mode := int64(0o755)
		if directory == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Name: directory, Typeflag: tar.TypeDir, Mode: mode}); err != nil {
			return nil, err
		}
	}
	passwd := []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n")
	err := errors.Join(
		file(w, "program", 0o755, program),
		file(w, "etc/passwd", 0o644, passwd),
		file(w, "etc/group", 0o644, []byte("root:x:0:\nnobody:x:65534:\n")),
	)
	for _, name := range []string{
		"sh", "cat", "ls", "tar", "echo", "sleep", "id", "env", "test", "touch", "rm", "kill", "true", "false", "mkdir",
		"wget", "httpd", "nc", "stty", "ps", "head", "tail", "cut", "grep", "readlink", "printf",
	} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "/program", Mode: 0o777}))
	}
	return buffer.Bytes(), errors.Join(err, w.Close())
}

func file(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func (a *archive) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	for _, name := range a.order {
		err = errors.Join(err, file(w, name, 0o644, a.files[name]))
	}
	return errors.Join(err, w.Close(), f.Close())
}
