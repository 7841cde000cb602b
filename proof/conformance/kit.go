package main

import (
	"bytes"
	"context"
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
	if err := k.makeRoot(ctx); err != nil {
		return err
	}
	return k.makeImages(ctx)
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
	defer step("building %s", p.name)()
	args := []string{"build"}
	if p.test {
		args = []string{"test", "-c"}
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
	text := fmt.Sprintf("module millrace.dev/conformance/%s\n\ngo 1.26\n\nrequire %s %s\n", m.name, name, v)
	if m.name == "kubernetes" {
		replaced, err := k.stagingModules(ctx)
		if err != nil {
			return "", err
		}
		text += replaced
	}
	return dir, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644)
}

// stagingModules returns replacements for the modules that Kubernetes replaces with directories of its repository. Their published versions have the same
// code.
func (k kit) stagingModules(ctx context.Context) (string, error) {
	source, err := k.source(ctx)
	if err != nil {
		return "", err
	}
	file, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(file)) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), " => "); ok && strings.HasPrefix(rest, "./staging") {
			fmt.Fprintf(&out, "replace %s => %s v0.%s\n", name, name, strings.TrimPrefix(version, "1."))
		}
	}
	return out.String(), nil
}

// source returns the directory of Kubernetes' module.
func (k kit) source(ctx context.Context) (string, error) {
	out, err := k.goCommand(ctx, k.dir, "mod", "download", "-json", "k8s.io/kubernetes@v"+version)
	if err != nil {
		return "", err
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
