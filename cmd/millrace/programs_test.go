package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace"
)

func TestLinksAreTheProgramsOfKubernetes(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(own, link); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(link, "--version").CombinedOutput(); err != nil || string(out) != "Kubernetes "+millrace.Version().GitVersion+"\n" {
			t.Errorf("%s --version: %v, %s", name, err, out)
		}
		out, err := exec.Command(link, "--help").CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("\n  "+name+" [flags]\n")) {
			t.Errorf("%s --help: %v, %s", name, err, out)
		}
		out, err = exec.Command(link, "--no-such-flag").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "unknown flag: --no-such-flag") {
			t.Errorf("%s with an unknown flag: %v, %s", name, err, out)
		}
	}
}

func TestTheKubeletUnderItsOwnNameUsesTheDirectoryOfKubernetes(t *testing.T) {
	if root := commandFor("/usr/bin/kubelet", nil).Flags().Lookup("root-dir"); root.Value.String() != "/var/lib/kubelet" {
		t.Errorf("it is %s", root.Value)
	}
	if c := commandFor("/usr/bin/millrace", []string{"kubelet"}); c.Name() != "millrace" {
		t.Errorf("the command is %s", c.Name())
	}
}
