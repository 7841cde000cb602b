package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var whole = flag.Bool("whole", false, "build Millrace itself twice, in two folders and with two build caches; takes an hour")

// small is a program that answers what a release asks of Millrace's.
const small = `package main

import (
	"os"

	"github.com/millrace/millrace/cmd/millrace/internal/build"
)

func main() {
	switch os.Args[1] {
	case "version":
		os.Stdout.WriteString(build.JSON())
	case "man":
		_ = os.MkdirAll(os.Args[2], 0o755)
		_ = os.WriteFile(os.Args[2]+"/millrace.1", []byte(".TH MILLRACE 1\n"), 0o644)
	case "completion":
		os.Stdout.WriteString("completions of " + os.Args[2])
	}
}
`

const smallBuild = `package build

var version, commit, date string

func JSON() string {
	if version == "" {
		version = "0.9.0-dev"
	}
	return "{\"version\": \"" + version + "\", \"commit\": \"" + commit + "\", \"date\": \"" + date + "\"}"
}
`

// repository makes a repository with the small program in a directory.
func repository(t *testing.T, directory string) string {
	t.Helper()
	for name, text := range map[string]string{
		"go.mod": "module github.com/millrace/millrace\n\ngo 1.26\n", "LICENSE": "Free.\n", "README.md": "# Millrace\n", "CHANGELOG.md": "# Changes\n",
		"cmd/millrace/main.go": small, "cmd/millrace/internal/build/build.go": smallBuild,
	} {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git(t, directory, "init", "-q")
	git(t, directory, "add", "-A")
	git(t, directory, "-c", "user.name=Somebody", "-c", "user.email=somebody@example.com", "commit", "-q", "-m", "All", "--date=2026-11-29T12:00:00Z")
	return directory
}

func git(t *testing.T, directory string, args ...string) {
	t.Helper()
	c := exec.Command("git", append([]string{"-C", directory}, args...)...)
	c.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-11-29T12:00:00Z")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// made makes a release, and returns its files by their names.
func made(t *testing.T, source string, args ...string) map[string][]byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "dist")
	if err := run(t.Context(), append([]string{"-source", source, "-out", out}, args...)); err != nil {
		t.Fatal(err)
	}
	found, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range found {
		if files[f.Name()], err = os.ReadFile(filepath.Join(out, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func TestTwoBuildsInTwoFoldersAreTheSameBytes(t *testing.T) {
	first, second := repository(t, filepath.Join(t.TempDir(), "one")), repository(t, filepath.Join(t.TempDir(), "a", "folder", "with a longer name"))
	git(t, first, "tag", "v0.9.1")
	git(t, second, "tag", "v0.9.1")
	one := made(t, first, "-pgo=off")
	t.Setenv("GOFLAGS", "-ldflags=-X=main.x=y")
	t.Setenv("GOAMD64", "v3")
	compare(t, one, made(t, second, "-pgo=off"))
	for _, name := range []string{
		"SHA256SUMS", "millrace_0.9.1_image.tar", "millrace_0.9.1_linux_amd64.tar.gz", "millrace_0.9.1_linux_arm64.tar.gz", "millrace_0.9.1_darwin_amd64.tar.gz",
		"millrace_0.9.1_darwin_arm64.tar.gz", "millrace_0.9.1_windows_amd64.zip", "millrace_0.9.1-1_amd64.deb", "millrace_0.9.1-1_arm64.deb",
		"millrace-0.9.1-1.x86_64.rpm", "millrace-0.9.1-1.aarch64.rpm", "millrace_0.9.1_linux_amd64.cdx.json", "millrace_0.9.1_windows_amd64.cdx.json",
	} {
		if len(one[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestTwoBuildsOfMillraceAreTheSameBytes(t *testing.T) {
	if !*whole {
		t.Skip("without -whole")
	}
	var builds []map[string][]byte
	for _, name := range []string{"one", filepath.Join("another", "folder")} {
		clone := filepath.Join(t.TempDir(), name)
		if out, err := exec.Command("git", "clone", "-q", "..", clone).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Setenv("GOCACHE", t.TempDir())
		builds = append(builds, made(t, clone, "-snapshot"))
	}
	compare(t, builds[0], builds[1])
}

func compare(t *testing.T, one, other map[string][]byte) {
	t.Helper()
	if len(one) != len(other) {
		t.Errorf("%d files and %d", len(one), len(other))
	}
	for name, text := range one {
		if !bytes.Equal(text, other[name]) {
			t.Errorf("%s differs: %d bytes and %d", name, len(text), len(other[name]))
		}
	}
}

func TestAnArchiveHasTheProgramAndWhatBelongsToIt(t *testing.T) {
	files := made(t, repository(t, t.TempDir()), "-snapshot", "-pgo=off", "-targets=linux/amd64,windows/amd64")
	z, err := gzip.NewReader(bytes.NewReader(files["millrace_0.9.0-dev_linux_amd64.tar.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	const top = "millrace_0.9.0-dev_linux_amd64/"
	want := []string{
		"CHANGELOG.md", "LICENSE", "README.md", "completions/bash/millrace", "completions/fish/millrace.fish", "completions/zsh/_millrace", "man/millrace.1",
		"millrace", "systemd/millrace.service", "systemd/sysusers.conf",
	}
	in := untar(t, z)
	for _, name := range want {
		if in[top+name] == nil {
			t.Errorf("the archive lacks %s", name)
		}
	}
	if len(in) != len(want) {
		t.Errorf("%d files, want %d", len(in), len(want))
	}
	built, err := buildinfo.Read(bytes.NewReader(in[top+"millrace"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range built.Settings {
		if s.Key == "CGO_ENABLED" && s.Value != "0" || strings.HasPrefix(s.Key, "vcs") {
			t.Errorf("built with %s=%s", s.Key, s.Value)
		}
	}
	if files["millrace_0.9.0~dev-1_amd64.deb"] == nil || files["millrace-0.9.0~dev-1.x86_64.rpm"] == nil {
		t.Error("the packages of a preview are not older than those of the release")
	}
	windows := files["millrace_0.9.0-dev_windows_amd64.zip"]
	archive, err := zip.NewReader(bytes.NewReader(windows), int64(len(windows)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(archive.File, func(f *zip.File) bool { return f.Name == "millrace_0.9.0-dev_windows_amd64/millrace.exe" }) {
		t.Error("there is no millrace.exe")
	}
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if err == io.EOF {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = append([]byte{}, text...)
		}
	}
}

// TestTheImageIsForBothProcessorsAndNoRoot follows the image from its index to the files.
func TestTheImageIsForBothProcessorsAndNoRoot(t *testing.T) {
	blobs := untar(t, bytes.NewReader(made(t, repository(t, t.TempDir()), "-snapshot", "-pgo=off", "-targets=linux/amd64,linux/arm64")["millrace_0.9.0-dev_image.tar"]))
	var index manifest
	load(t, blobs, "index.json", &index)
	var images manifest
	load(t, blobs, blob(t, blobs, index.Manifests[0]), &images)
	if len(images.Manifests) != 2 || images.Manifests[0].Platform.Arch != "amd64" || images.Manifests[1].Platform.Arch != "arm64" {
		t.Fatalf("%+v", images)
	}
	for _, d := range images.Manifests {
		var image manifest
		load(t, blobs, blob(t, blobs, d), &image)
		var config imageConfig
		load(t, blobs, blob(t, blobs, *image.Config), &config)
		if config.Config.User != "65532:65532" || config.Arch != d.Platform.Arch || config.Config.Labels["org.opencontainers.image.version"] != "0.9.0-dev" {
			t.Errorf("%+v", config)
		}
		z, err := gzip.NewReader(bytes.NewReader(blobs[blob(t, blobs, image.Layers[0])]))
		if err != nil {
			t.Fatal(err)
		}
		if files := untar(t, z); len(files["usr/bin/millrace"]) == 0 || files["etc/passwd"] == nil {
			t.Error("the layer lacks the program or the user")
		}
	}
}

// blob returns the name of the file that is described, if its size is right.
func blob(t *testing.T, blobs map[string][]byte, d described) string {
	t.Helper()
	name := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
	if len(blobs[name]) != d.Size {
		t.Fatalf("%s has %d bytes, want %d", name, len(blobs[name]), d.Size)
	}
	return name
}

func load(t *testing.T, blobs map[string][]byte, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(blobs[name], into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestAReleaseIsMadeFromATagAndNothingElse(t *testing.T) {
	source := repository(t, t.TempDir())
	for want, prepare := range map[string]func(){
		"HEAD has 0 tags of a version": func() {},
		"files differ from HEAD": func() {
			git(t, source, "tag", "v0.9.1")
			if err := os.WriteFile(filepath.Join(source, "README.md"), []byte("changed"), 0o644); err != nil {
				t.Fatal(err)
			}
		},
	} {
		git(t, source, "reset", "-q", "--hard")
		prepare()
		err := run(t.Context(), []string{"-source", source, "-out", t.TempDir(), "-pgo=off"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		_ = exec.Command("git", "-C", source, "tag", "-d", "v0.9.1").Run()
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-source", source, "-out", full}); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"-targets", "plan9/amd64"}); err == nil || !strings.Contains(err.Error(), `"plan9/amd64" is none of`) {
		t.Error(err)
	}
}
