package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // the format
)

// packages makes the packages of Debian and RPM for a target.
func (r *release) packages(t target) error {
	scripts := filepath.Join(r.work, "scripts")
	if err := r.unpackScripts(scripts); err != nil {
		return err
	}
	contents, err := r.installed(t)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.packaged(format, t, contents, scripts); err != nil {
			return err
		}
	}
	return nil
}

// unpackScripts writes the scripts of packages into a directory, from which nfpm reads them.
func (r *release) unpackScripts(directory string) error {
	err := os.MkdirAll(directory, 0o755)
	for _, name := range []string{"postinstall.sh", "preremove.sh", "postremove.sh"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(directory, name), own(name, name).text, 0o755))
	}
	return err
}

// installed returns what a package installs. The data directory is not in it: systemd makes it, and it stays when the
// package is removed.
func (r *release) installed(t target) ([]entry, error) {
	pages, err := r.manual("/usr/share/man/man1")
	return append(pages,
		entry{name: "/usr/bin/millrace", mode: 0o755, path: r.program(t)},
		own("millrace.service", "/usr/lib/systemd/system/millrace.service"),
		own("sysusers.conf", "/usr/lib/sysusers.d/millrace.conf"),
		own("millrace.env", "/etc/millrace/millrace.env"),
		r.completion("bash", "/usr/share/bash-completion/completions"),
		r.completion("zsh", "/usr/share/zsh/site-functions"),
		r.completion("fish", "/usr/share/fish/vendor_completions.d"),
		r.document("README.md", "/usr/share/doc/millrace"),
		r.document("CHANGELOG.md", "/usr/share/doc/millrace"),
		entry{name: "/usr/share/doc/millrace/copyright", mode: 0o644, path: filepath.Join(r.source, "LICENSE")},
	), err
}

func (r *release) packaged(format string, t target, contents []entry, scripts string) error {
	info, err := r.description(t, contents, scripts)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info) // a preview becomes 0.1.0~dev, which is older than 0.1.0
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return write(filepath.Join(r.out, packager.ConventionalFileName(info)), func(w io.Writer) error { return packager.Package(info, w) })
}

// description returns what a package says of itself.
func (r *release) description(t target, contents []entry, scripts string) (*nfpm.Info, error) {
	info := &nfpm.Info{
		Name: "millrace", Arch: t.arch, Platform: t.os, Version: r.version, Release: "1", Section: "admin", Priority: "optional", MTime: r.commit.date,
		Maintainer: "The Millrace authors", Homepage: "https://github.com/millrace/millrace", License: "Apache-2.0",
		Description:     "The Kubernetes control loop, whole and small\nA store, an API server, controllers, a scheduler, a kubelet and a network in one\nprogram, with the API of Kubernetes.",
		DisableGlobbing: true,
	}
	info.Deb.Compression, info.RPM.Compression = "zstd", "zstd"
	info.RPM.BuildHost = "localhost" // not the machine's
	info.RPM.Summary = "The Kubernetes control loop, whole and small"
	info.Scripts = nfpm.Scripts{
		PostInstall: filepath.Join(scripts, "postinstall.sh"), PreRemove: filepath.Join(scripts, "preremove.sh"), PostRemove: filepath.Join(scripts, "postremove.sh"),
	}
	staged := filepath.Join(r.work, "embedded")
	for _, e := range contents {
		source, err := e.onDisk(staged)
		if err != nil {
			return nil, err
		}
		c := &nfpmfiles.Content{
			Source: source, Destination: e.name,
			FileInfo: &nfpmfiles.ContentFileInfo{Mode: e.mode, Owner: "root", Group: "root", MTime: r.commit.date},
		}
		if filepath.Dir(e.name) == "/etc/millrace" {
			c.Type = nfpmfiles.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, c)
	}
	return info, nil
}

// onDisk returns a path of the content: its own, or one below a directory that it is written to.
func (e entry) onDisk(directory string) (string, error) {
	if e.path != "" {
		return e.path, nil
	}
	path := filepath.Join(directory, filepath.FromSlash(e.name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, e.text, e.mode)
}
