package main

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// archive packs the program and what belongs to it: .tar.gz, and .zip for Windows.
func (r *release) archive(t target) error {
	top := "millrace_" + r.version + "_" + t.os + "_" + t.arch
	entries := []entry{
		{name: top + "/" + t.program(), mode: 0o755, path: r.program(t)},
		r.document("LICENSE", top), r.document("README.md", top), r.document("CHANGELOG.md", top),
	}
	if t.os != "windows" {
		pages, err := r.manual(top + "/man")
		if err != nil {
			return err
		}
		entries = append(entries, pages...)
		for shell := range completions {
			entries = append(entries, r.completion(shell, top+"/completions/"+shell))
		}
	}
	if t.os == "linux" {
		entries = append(entries, own("millrace.service", top+"/systemd/millrace.service"), own("sysusers.conf", top+"/systemd/sysusers.conf"))
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	if t.os == "windows" {
		return write(r.name(t.os, t.arch+".zip"), func(w io.Writer) error { return writeZip(w, entries, r.commit.date) })
	}
	return write(r.name(t.os, t.arch+".tar.gz"), func(w io.Writer) error {
		return gzipped(w, func(w io.Writer) error { return writeTar(w, entries, r.commit.date, 0) })
	})
}

// write writes a file.
func write(path string, content func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return content(f)
}

func gzipped(w io.Writer, content func(io.Writer) error) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(content(z), z.Close())
}

// writeTar writes entries that belong to a user. An entry whose mode is a directory's has no content.
func writeTar(w io.Writer, entries []entry, date time.Time, owner int) error {
	out := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), ModTime: date, Uid: owner, Gid: owner, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if e.mode.IsDir() {
			h.Name, h.Typeflag = e.name+"/", tar.TypeDir
		}
		text, err := e.read()
		if err != nil {
			return err
		}
		h.Size = int64(len(text))
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}

func writeZip(w io.Writer, entries []entry, date time.Time) error {
	out := zip.NewWriter(w)
	out.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		h.SetMode(e.mode)
		f, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		text, err := e.read()
		if err != nil {
			return err
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
	}
	return out.Close()
}
