//go:build unix

package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// content is a blob of an image.
type content struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// settings is what an image says about its containers.
type settings struct {
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	User       string   `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
	Env        []string
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bb"

// image is one image of the root directory.
type image struct {
	settings
	files    map[string][]byte // on top
	programs map[string]string // also on top: from the kit, by their path in the image
}

// standIn is an image of csidriver under another name.
func standIn(name string) image {
	return image{settings: settings{Entrypoint: []string{"/" + name}}, programs: map[string]string{name: "csidriver"}}
}

// images returns the images by the last part of their names. Other names get the root directory as it is: see anyImage.
func (k kit) images() (map[string]image, error) {
	shell, err := os.ReadFile(k.bin("sh"))
	if err != nil {
		return nil, err
	}
	agnhost := settings{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, WorkingDir: "/"}
	pet := func(name string) image {
		return image{
			settings: settings{Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"}, WorkingDir: "/"},
			files: map[string][]byte{
				"data.json":      fmt.Appendf(nil, `{"image": "%s.jpg"}`, name),
				"etc/os-release": []byte("NAME=\"Alpine Linux\"\nID=alpine\n"),
			},
		}
	}
	return map[string]image{
		anyImage:           {},
		"agnhost":          {settings: agnhost, programs: map[string]string{"coredns": "coredns"}},
		"pause":            {settings: settings{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}},
		"nginx":            {settings: settings{Cmd: []string{"nginx", "-g", "daemon off;"}}},
		"nonroot":          {settings: settings{Cmd: []string{"sh"}, User: "1234"}},
		"nonewprivs":       {settings: settings{Cmd: []string{"nnp"}}},
		"nautilus":         pet("nautilus"),
		"kitten":           pet("kitten"),
		"etcd":             {settings: settings{Entrypoint: []string{"/usr/local/bin/etcd"}}},
		"sample-apiserver": {settings: settings{Entrypoint: []string{"/kube-sample-apiserver"}}},
		// The sidecar of snapshots ends without the definitions of their kinds, which are not part of Kubernetes.
		"csi-snapshotter": {settings: settings{Entrypoint: []string{"/bin/bash", "-c", "trap exit TERM; sleep infinity & wait"}}},
		"csi-provisioner": {settings: settings{Entrypoint: []string{"/csi-provisioner"}}, programs: map[string]string{"csi-provisioner": "csi-provisioner"}},
		"csi-attacher":    {settings: settings{Entrypoint: []string{"/csi-attacher"}}, programs: map[string]string{"csi-attacher": "csi-attacher"}},
		"csi-resizer":     {settings: settings{Entrypoint: []string{"/csi-resizer"}}, programs: map[string]string{"csi-resizer": "csi-resizer"}},
		"regression-issue-74839": {
			settings: settings{Entrypoint: []string{"/regression-issue-74839"}}, programs: map[string]string{"regression-issue-74839": "regression-issue-74839"},
		},
		"hostpathplugin":            standIn("hostpathplugin"),
		"csi-node-driver-registrar": standIn("csi-node-driver-registrar"),
		"livenessprobe":             standIn("livenessprobe"),
		"busybox": {
			settings: settings{Cmd: []string{"sh"}, Env: []string{"PATH=/opt/bb:/usr/local/bin:/usr/bin:/bin"}},
			files:    map[string][]byte{"usr/bin/sh": shell},
		},
	}, nil
}

// makeImages writes the images as the registry serves them: blobs by digest, and an index from names to manifests.
func (k kit) makeImages(ctx context.Context) error {
	images, err := k.images()
	if err != nil {
		return err
	}
	if k.hasImages(images) {
		return nil
	}
	defer step("making the images")()
	if err := os.MkdirAll(k.path(blobDirectory), 0o755); err != nil {
		return err
	}
	base, err := k.addBlob(layerType, func(w io.Writer) error { return packRoot(ctx, w, k.path("root")) })
	if err != nil {
		return err
	}
	index := make(map[string]content, len(images))
	for name, i := range images {
		if index[name], err = k.addImage(base, i); err != nil {
			return err
		}
	}
	b, err := json.Marshal(index)
	if err != nil {
		return err
	}
	return os.WriteFile(k.path(indexFile), b, 0o644)
}

// hasImages reports whether the index has all images.
func (k kit) hasImages(images map[string]image) bool {
	b, err := os.ReadFile(k.path(indexFile))
	if err != nil {
		return false
	}
	var index map[string]content
	if json.Unmarshal(b, &index) != nil {
		return false
	}
	for name := range images {
		if _, ok := index[name]; !ok {
			return false
		}
	}
	return true
}

func (k kit) addImage(base content, i image) (content, error) {
	layers := []content{base}
	files := make(map[string][]byte)
	maps.Copy(files, i.files)
	for path, program := range i.programs {
		var err error
		if files[path], err = os.ReadFile(k.bin(program)); err != nil {
			return content{}, err
		}
	}
	if len(files) > 0 {
		top, err := k.addBlob(layerType, func(w io.Writer) error { return packFiles(w, files) })
		if err != nil {
			return content{}, err
		}
		layers = append(layers, top)
	}
	if i.Env == nil {
		i.Env = []string{defaultPath}
	}
	var ids []string // a layer that is not compressed has its digest as its identity
	for _, l := range layers {
		ids = append(ids, l.Digest)
	}
	config, err := k.addJSON(configType, map[string]any{
		"architecture": "amd64", "os": "linux", "config": i.settings,
		"rootfs": map[string]any{"type": "layers", "diff_ids": ids},
	})
	if err != nil {
		return content{}, err
	}
	return k.addJSON(manifestType, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": layers})
}

func (k kit) addJSON(mediaType string, v any) (content, error) {
	return k.addBlob(mediaType, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}

// addBlob stores what write writes under its digest.
func (k kit) addBlob(mediaType string, write func(io.Writer) error) (content, error) {
	f, err := os.CreateTemp(k.path(blobDirectory), "new")
	if err != nil {
		return content{}, err
	}
	defer os.Remove(f.Name())
	hash := sha256.New()
	err = write(io.MultiWriter(f, hash))
	size, seekErr := f.Seek(0, io.SeekCurrent)
	if err := errors.Join(err, seekErr, f.Chmod(0o644), f.Close()); err != nil {
		return content{}, err
	}
	c := content{mediaType, fmt.Sprintf("sha256:%x", hash.Sum(nil)), size}
	return c, os.Rename(f.Name(), k.blob(c.Digest))
}

func packFiles(w io.Writer, files map[string][]byte) error {
	t := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := t.Write(files[name]); err != nil {
			return err
		}
	}
	return t.Close()
}

// packRoot writes a directory as a layer, with owners, modes and links. Devices are left out: a container gets its own.
func packRoot(ctx context.Context, w io.Writer, root string) error {
	t := tar.NewWriter(w)
	linked := make(map[uint64]string) // by inode
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return packEntry(t, path, name, info, linked)
	})
	return errors.Join(err, t.Close())
}

func packEntry(t *tar.Writer, path, name string, info fs.FileInfo, linked map[uint64]string) error {
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname = name, "", ""
	if stat := info.Sys().(*syscall.Stat_t); info.Mode().IsRegular() && stat.Nlink > 1 {
		if first, ok := linked[stat.Ino]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
		} else {
			linked[stat.Ino] = name
		}
	}
	if info.IsDir() {
		h.Name += "/"
	}
	if err := t.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(t, f)
	return err
}
