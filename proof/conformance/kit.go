//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kit is a directory with everything that a run needs. What is there is not built again.
type kit struct{ dir string }

func (k kit) path(parts ...string) string { return filepath.Join(append([]string{k.dir}, parts...)...) }
func (k kit) bin(name string) string      { return k.path("bin", name) }

// module is a Go module of its own for programs of one origin, so that their dependencies do not become ours.
type module struct {
	name     string
	requires string // module@version
	programs []program
}

type program struct {
	name, pkg string
	test      bool   // build the package's tests
	flags     string // separated by spaces
}

// stamp makes Kubernetes' programs say their version.
const stamp = "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v" + version +
	" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"

var modules = []module{
	{"kubernetes", "k8s.io/kubernetes@v" + version, []program{
		{name: "e2e.test", pkg: "k8s.io/kubernetes/test/e2e", test: true, flags: "-ldflags=-s -w"},
		{name: "ginkgo", pkg: "github.com/onsi/ginkgo/v2/ginkgo"},
		{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl", flags: stamp},
		{name: "agnhost", pkg: "k8s.io/kubernetes/test/images/agnhost"},
		{name: "sample-apiserver", pkg: "k8s.io/sample-apiserver"},
		{name: "regression-issue-74839", pkg: "k8s.io/kubernetes/test/images/regression-issue-74839"},
	}},
	{"coredns", "github.com/coredns/coredns@v1.15.0", []program{{name: "coredns", pkg: "github.com/coredns/coredns", flags: "-ldflags=-s"}}},
	{"csi-provisioner", "github.com/kubernetes-csi/external-provisioner/v6@v6.4.0", []program{
		{name: "csi-provisioner", pkg: "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner", flags: "-ldflags=-s"},
	}},
	{"csi-attacher", "github.com/kubernetes-csi/external-attacher/v4@v4.13.0", []program{
		{name: "csi-attacher", pkg: "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher", flags: "-ldflags=-s"},
	}},
	{"csi-resizer", "github.com/kubernetes-csi/external-resizer/v2@v2.3.0", []program{
		{name: "csi-resizer", pkg: "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer", flags: "-ldflags=-s"},
	}},
	{"etcd", "go.etcd.io/etcd/server/v3@v3.7.3", []program{{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"}}},
	// Debian's containerd is too old for volumes that are images.
	{"containerd", "github.com/containerd/containerd/v2@v2.2.1", []program{
		{name: "containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd", flags: "-tags=no_btrfs,no_zfs,no_devmapper"},
		{name: "containerd-shim-runc-v2", pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
		{name: "ctr", pkg: "github.com/containerd/containerd/v2/cmd/ctr", flags: "-tags=no_btrfs,no_zfs,no_devmapper"},
	}},
}

func (k kit) build(ctx context.Context) error {
	if err := k.buildPrograms(ctx); err != nil {
		return err
	}
	if err := k.buildOwn(ctx); err != nil {
		return err
	}
	if err := k.makeRoot(ctx); err != nil {
		return err
	}
	return k.makeImages(ctx)
}

// buildOwn builds the program of this repository that stands in for drivers of storage.
func (k kit) buildOwn(ctx context.Context) error {
	if exists(k.bin("csidriver")) {
		return nil
	}
	defer step("building csidriver")()
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s", "-o", k.bin("csidriver"), "github.com/millrace/millrace/proof/conformance/csidriver")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	_, err := output(c)
	return err
}

// buildPrograms builds the programs that are called, or all.
func (k kit) buildPrograms(ctx context.Context, called ...string) error {
	if err := os.MkdirAll(k.path("bin"), 0o755); err != nil {
		return err
	}
	for _, m := range modules {
		for _, p := range m.programs {
			if exists(k.bin(p.name)) || len(called) > 0 && !slices.Contains(called, p.name) {
				continue
			}
			if err := k.buildProgram(ctx, m, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k kit) buildProgram(ctx context.Context, m module, p program) error {
	dir, err := k.openModule(ctx, m)
	if err != nil {
		return err
	}
	if err := k.fetch(ctx, dir, p); err != nil {
		return err
	}
	defer step("building %s", p.name)()
	args := []string{"build"}
	if p.test {
		args = []string{"test", "-c", "-vet=off"} // else everything that the tests import is analysed, which takes as long as compiling it
	}
	if args = append(args, "-trimpath"); p.flags != "" {
		args = append(args, p.flags)
	}
	made := k.bin("." + p.name) // renamed when it is whole
	if _, err := k.goCommand(ctx, dir, append(args, "-o", made, p.pkg)...); err != nil {
		return err
	}
	return os.Rename(made, k.bin(p.name))
}

// errNoModule means that a module cannot be downloaded.
var errNoModule = errors.New("a module cannot be downloaded")

// fetch downloads the modules of everything that a program is built from, so that building needs no network.
func (k kit) fetch(ctx context.Context, dir string, p program) error {
	defer step("fetching what %s is built from", p.name)()
	if _, err := k.goCommand(ctx, dir, "list", "-deps", fmt.Sprint("-test=", p.test), p.pkg); err != nil {
		return fmt.Errorf("%w: %w", errNoModule, err)
	}
	return nil
}

// openModule makes the module, unless it is there, and returns its directory.
func (k kit) openModule(ctx context.Context, m module) (string, error) {
	dir := k.path("modules", m.name)
	if exists(filepath.Join(dir, "go.mod")) {
		return dir, nil
	}
	defer step("fetching %s", m.requires)()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	name, v, _ := strings.Cut(m.requires, "@")
	replaced, err := k.replacements(ctx, m.requires)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("module millrace.dev/conformance/%s\n\ngo 1.26\n\nrequire %s %s\n%s", m.name, name, v, replaced)
	return dir, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644)
}

// replacements returns a module's own replacements, which only hold if it is the main module. For the directories of
// Kubernetes' repository it has the published versions of the same code.
func (k kit) replacements(ctx context.Context, requires string) (string, error) {
	source, err := k.source(ctx, requires)
	if err != nil {
		return "", err
	}
	file, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(file)) {
		name, to, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "replace "), " => ")
		switch {
		case ok && strings.HasPrefix(to, "./staging"):
			fmt.Fprintf(&out, "replace %s => %s v0.%s\n", name, name, strings.TrimPrefix(version, "1."))
		case ok && !strings.HasPrefix(to, "."):
			fmt.Fprintf(&out, "replace %s => %s\n", name, to)
		}
	}
	return out.String(), nil
}

// source returns the directory of a module's code.
func (k kit) source(ctx context.Context, requires string) (string, error) {
	out, err := k.goCommand(ctx, k.dir, "mod", "download", "-json", requires)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoModule, err)
	}
	_, rest, _ := strings.Cut(out, `"Dir": "`)
	dir, _, ok := strings.Cut(rest, `"`)
	if !ok {
		return "", fmt.Errorf("go mod download names no directory: %s", out)
	}
	return dir, nil
}

func (k kit) goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	return output(c)
}

// output runs a command and returns what it printed. An error carries the end of what it said.
func output(c *exec.Cmd) (string, error) {
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		text := strings.TrimSpace(out.String() + "\n" + said.String())
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, text[max(0, len(text)-2000):])
	}
	return out.String(), nil
}

// step says what is being done, and, when the returned function is called, how long that took.
func step(format string, args ...any) (done func()) {
	start := time.Now()
	what := fmt.Sprintf(format, args...)
	fmt.Println(what)
	return func() { fmt.Printf("%s: %s\n", what, time.Since(start).Round(time.Second)) }
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
