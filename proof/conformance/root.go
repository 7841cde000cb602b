//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// One root directory serves all images: Debian, with busybox's applets behind its own programs, and the programs of the
// tests. An image of a test differs in what it runs, and in some files on top.

// packages of the root directory: what the tests call in their images.
const rootPackages = "bash,bind9-dnsutils,busybox-static,ca-certificates,curl,iproute2,iputils-ping,netcat-openbsd,nginx-light,procps,socat,wget"

// rootScript finishes the root directory, inside it.
const rootScript = `set -e
useradd -u 1000 -m user-defined-in-image
groupadd -g 50000 group-defined-in-image
usermod -aG group-defined-in-image user-defined-in-image
mkdir -p /opt/bb /uploads
/bin/busybox --install -s /opt/bb
ln -sf bash /bin/sh
ln -sf /bin/sh /opt/bb/sh
[ -e /bin/sysctl ] || ln -s /sbin/sysctl /bin/sysctl
rm -rf /var/cache/apt /var/lib/apt/lists /usr/share/doc /usr/share/locale
`

// effectiveUser prints its effective user. With the setuid bit it shows whether a container may gain privileges.
const effectiveUser = `package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println("Effective uid:", os.Geteuid()) }
`

// chooseShell is the shell of the image busybox. Some tests expect the words of busybox's shell; others pass variables
// whose names no shell accepts, which Debian's busybox drops and bash passes on.
const chooseShell = `package main

import (
	"os"
	"regexp"
	"syscall"
)

func main() {
	name := regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_]*=")
	shell := "/bin/busybox"
	for _, v := range os.Environ() {
		if !name.MatchString(v) {
			shell = "/bin/bash"
		}
	}
	_ = syscall.Exec(shell, append([]string{"/bin/sh"}, os.Args[1:]...), os.Environ())
	os.Exit(127)
}
`

func (k kit) makeRoot(ctx context.Context) error {
	finished := k.path("root.done")
	if exists(finished) {
		return nil
	}
	defer step("making the root directory of the images")()
	root := k.path("root")
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	if err := install(ctx, "debootstrap"); err != nil {
		return err
	}
	for _, c := range [][]string{
		{"debootstrap", "--variant=minbase", "--include=" + rootPackages, "bookworm", root},
		{"chroot", root, "/bin/bash", "-c", rootScript},
	} {
		command := exec.CommandContext(ctx, c[0], c[1:]...)
		command.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/sbin:/sbin:"+os.Getenv("PATH"))
		if _, err := output(command); err != nil {
			return err
		}
	}
	if err := k.addPrograms(ctx, root); err != nil {
		return err
	}
	return os.WriteFile(finished, nil, 0o644)
}

// addPrograms puts the programs of the tests into the root directory, where the tests expect them.
func (k kit) addPrograms(ctx context.Context, root string) error {
	source, err := k.source(ctx, "k8s.io/kubernetes@v"+version)
	if err != nil {
		return err
	}
	files := map[string]string{
		"agnhost":               k.bin("agnhost"),
		"agnhost-2":             k.bin("agnhost"),
		"kube-sample-apiserver": k.bin("sample-apiserver"),
		"usr/local/bin/etcd":    k.bin("etcd"),
	}
	certificates, err := filepath.Glob(filepath.Join(source, "test/images/agnhost/porter/localhost.*"))
	if err != nil {
		return err
	}
	for _, c := range certificates {
		files[filepath.Base(c)] = c
	}
	for to, from := range files {
		if err := copyFile(from, filepath.Join(root, to), 0o755); err != nil {
			return err
		}
	}
	if err := k.buildText(ctx, effectiveUser, filepath.Join(root, "usr/local/bin/nnp"), 0o4755); err != nil {
		return err
	}
	return k.buildText(ctx, chooseShell, k.bin("sh"), 0o755)
}

// buildText builds a program of one file.
func (k kit) buildText(ctx context.Context, text, to string, mode uint32) error {
	dir, err := os.MkdirTemp(k.dir, "program")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := k.goCommand(ctx, dir, "build", "-trimpath", "-ldflags=-s", "-o", to, "main.go"); err != nil {
		return err
	}
	return exec.CommandContext(ctx, "chmod", fmt.Sprintf("%o", mode), to).Run()
}

func copyFile(from, to string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(to, b, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}

// install installs those of Debian's packages whose command is missing. Command and package have the same name.
func install(ctx context.Context, names ...string) error {
	var missing []string
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil && !exists("/usr/sbin/"+n) {
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if _, err := output(exec.CommandContext(ctx, "sh", "-c", "apt-get update && apt-get install -y --no-install-recommends "+strings.Join(missing, " "))); err != nil {
		return fmt.Errorf("%s is missing: %w", strings.Join(missing, ", "), err)
	}
	return nil
}
