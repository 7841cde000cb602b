//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// nodes is a cluster of two nodes on this machine, by nodes.sh.
type nodes struct {
	kit kit
	dir string
}

// start starts the nodes and returns their kubeconfig.
func (n nodes) start(ctx context.Context) (kubeconfig string, err error) {
	defer step("starting two nodes")()
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	registry := n.kit.bin("registry") // a copy, because the tests may outlive the program that go run made
	if err := copyFile(self, registry, 0o755); err != nil {
		return "", err
	}
	out, err := output(n.script(ctx, "start", n.dir, registry, registryVerb, n.kit.dir))
	if err != nil {
		return "", err
	}
	_, kubeconfig, ok := strings.Cut(strings.TrimSpace(out), "KUBECONFIG=")
	if !ok {
		return "", fmt.Errorf("nodes.sh printed no kubeconfig: %s", out)
	}
	return kubeconfig, nil
}

func (n nodes) stop() {
	defer step("removing the nodes")()
	if _, err := output(n.script(context.Background(), "stop", n.dir)); err != nil {
		fmt.Println("the nodes could not be removed:", err)
	}
}

func (n nodes) script(ctx context.Context, args ...string) *exec.Cmd {
	root, err := output(exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}"))
	c := exec.CommandContext(ctx, filepath.Join(strings.TrimSpace(root), "proof/conformance/nodes.sh"), args...)
	if err != nil {
		c.Err = err
	}
	c.Env = append(os.Environ(), "PATH="+n.kit.path("bin")+":"+os.Getenv("PATH")) // whose containerd is newer
	return c
}

// report prints what `millrace up` has used, and how many warnings and errors it has logged.
func (n nodes) report() {
	log, err := os.ReadFile(filepath.Join(n.dir, "up.log"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("up logged %d warnings and %d errors\n", bytes.Count(log, []byte("WARN")), bytes.Count(log, []byte("ERROR")))
	id, err := os.ReadFile(filepath.Join(n.dir, "up.pid"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("up has used", usageOf(strings.TrimSpace(string(id))))
}
