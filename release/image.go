package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// nonroot is the user of the image. It has no name anywhere else.
const nonroot = 65532

// The media types of the OCI's image specification.
const (
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// described points to a blob.
type described struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Arch string `json:"architecture"`
	OS   string `json:"os"`
}

type manifest struct {
	Schema    int         `json:"schemaVersion"`
	Type      string      `json:"mediaType"`
	Config    *described  `json:"config,omitempty"`
	Layers    []described `json:"layers,omitempty"`
	Manifests []described `json:"manifests,omitempty"`
}

type imageConfig struct {
	platform
	Created string        `json:"created"`
	Config  processConfig `json:"config"`
	RootFS  rootFS        `json:"rootfs"`
	History []history     `json:"history"`
}

type processConfig struct {
	User       string              `json:"User"`
	Ports      map[string]struct{} `json:"ExposedPorts"`
	Env        []string            `json:"Env"`
	Entrypoint []string            `json:"Entrypoint"`
	Cmd        []string            `json:"Cmd"`
	Volumes    map[string]struct{} `json:"Volumes"`
	WorkingDir string              `json:"WorkingDir"`
	Labels     map[string]string   `json:"Labels"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type history struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
}

// layout is a directory in the form of the OCI's image layout, as it will be in a tar file.
type layout struct{ entries []entry }

func (l *layout) add(kind string, content []byte) described {
	digest := fmt.Sprintf("%x", sha256.Sum256(content))
	if name := "blobs/sha256/" + digest; !slices.ContainsFunc(l.entries, func(e entry) bool { return e.name == name }) {
		l.entries = append(l.entries, entry{name: name, mode: 0o644, text: content})
	}
	return described{Type: kind, Digest: "sha256:" + digest, Size: len(content)}
}

func (l *layout) addJSON(kind string, content any) (described, error) {
	text, err := json.Marshal(content)
	return l.add(kind, text), err
}

// image makes one image for all processors of Linux, as a layout in a tar file: no daemon is needed to make it, and
// skopeo, ctr, podman and docker read it. It has the program and nothing else: no shell, and no CA certificates.
func (r *release) image(targets []target) error {
	var l layout
	var images []described
	for _, t := range targets {
		d, err := r.imageFor(&l, t)
		if err != nil {
			return err
		}
		images = append(images, d)
	}
	index, err := l.addJSON(indexType, manifest{Schema: 2, Type: indexType, Manifests: images})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "millrace.local/millrace:" + r.version}
	top, err := json.Marshal(manifest{Schema: 2, Type: indexType, Manifests: []described{index}})
	if err != nil {
		return err
	}
	slices.SortFunc(l.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	entries := append([]entry{
		{name: "oci-layout", mode: 0o644, text: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, text: top},
		{name: "blobs", mode: fs.ModeDir | 0o755}, {name: "blobs/sha256", mode: fs.ModeDir | 0o755},
	}, l.entries...)
	return write(r.name("image.tar"), func(w io.Writer) error { return writeTar(w, entries, r.commit.date, 0) })
}

// imageFor adds the image for one processor.
func (r *release) imageFor(l *layout, t target) (described, error) {
	var plain bytes.Buffer
	if err := r.layer(&plain, t); err != nil {
		return described{}, err
	}
	var packed bytes.Buffer
	if err := gzipped(&packed, func(w io.Writer) error { _, err := w.Write(plain.Bytes()); return err }); err != nil {
		return described{}, err
	}
	on := platform{Arch: t.arch, OS: t.os}
	config, err := l.addJSON(configType, r.imageConfig(on, fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes()))))
	if err != nil {
		return described{}, err
	}
	d, err := l.addJSON(manifestType, manifest{Schema: 2, Type: manifestType, Config: &config, Layers: []described{l.add(layerType, packed.Bytes())}})
	d.Platform = &on
	return d, err
}

// layer writes the files of the image. The data directory belongs to the user, so that a new volume does too.
func (r *release) layer(w io.Writer, t target) error {
	user := fmt.Sprintf("millrace:x:%d:%d::/data:/sbin/nologin\n", nonroot, nonroot)
	return writeTar(w, []entry{
		{name: "data", mode: fs.ModeDir | 0o700},
		{name: "etc", mode: fs.ModeDir | 0o755},
		{name: "etc/group", mode: 0o644, text: fmt.Appendf(nil, "millrace:x:%d:\n", nonroot)},
		{name: "etc/passwd", mode: 0o644, text: []byte(user)},
		{name: "tmp", mode: fs.ModeDir | 0o700},
		{name: "usr", mode: fs.ModeDir | 0o755},
		{name: "usr/bin", mode: fs.ModeDir | 0o755},
		{name: "usr/bin/millrace", mode: 0o755, path: r.program(t)},
	}, r.commit.date, nonroot)
}

func (r *release) imageConfig(on platform, layer string) imageConfig {
	date := r.commit.date.Format(time.RFC3339)
	return imageConfig{
		platform: on, Created: date,
		Config: processConfig{
			User: fmt.Sprintf("%d:%d", nonroot, nonroot), Ports: map[string]struct{}{"6443/tcp": {}},
			Env:        []string{"PATH=/usr/bin", "HOME=/data"},
			Entrypoint: []string{"/usr/bin/millrace"}, Cmd: []string{"up", "--data=/data", "--listen=0.0.0.0:6443"},
			Volumes: map[string]struct{}{"/data": {}}, WorkingDir: "/data",
			Labels: map[string]string{
				"org.opencontainers.image.title": "Millrace", "org.opencontainers.image.version": r.version,
				"org.opencontainers.image.revision": r.commit.id, "org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.source": "https://github.com/millrace/millrace",
			},
		},
		RootFS:  rootFS{Type: "layers", DiffIDs: []string{layer}},
		History: []history{{Created: date, CreatedBy: "release"}},
	}
}
