package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace"
)

func TestVersionIsPrintedAsByKubeAPIServer(t *testing.T) {
	version := millrace.Version()
	for flag, want := range map[string]string{
		"--version": "Kubernetes " + version.GitVersion + "\n", "--version=1": "Kubernetes " + version.GitVersion + "\n",
		"--version=raw": `version.Info{Major:"1", Minor:"` + version.Minor + `", `,
	} {
		if out, err := execute(t, "apiserver", flag); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, %v", flag, out, err)
		}
	}
	if _, err := execute(t, "apiserver", "--version=false", "--bind-address=x"); err == nil || !strings.Contains(err.Error(), "--bind-address") {
		t.Errorf("--version=false ended the program: %v", err)
	}
	if _, err := execute(t, "apiserver", "--version=later"); err == nil || !strings.Contains(err.Error(), `invalid argument "later" for "--version" flag`) {
		t.Errorf("--version=later: %v", err)
	}
}
