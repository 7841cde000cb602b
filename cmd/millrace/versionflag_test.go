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

func TestTheProgramTellsItsOwnVersion(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if out, err := execute(t, args...); err != nil || !strings.HasPrefix(out, "millrace    0.1.0-dev\n") || !strings.Contains(out, "\nKubernetes  1.37\n") {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
	if out, err := execute(t, "version", "-o", "json"); err != nil || !strings.Contains(out, `"kubernetes": "1.37"`) {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := execute(t, "versoin"); err == nil || !strings.Contains(err.Error(), `unknown command "versoin"`) {
		t.Errorf("a mistyped command: %v", err)
	}
}
