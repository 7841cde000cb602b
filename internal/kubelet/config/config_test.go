package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/kubelet/config"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDropInsReplaceListsAndAddToMaps(t *testing.T) {
	directory := t.TempDir()
	base, drop := filepath.Join(directory, "base.yaml"), filepath.Join(directory, "d")
	if err := os.Mkdir(drop, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, base, head+"maxPods: 7\nclusterDNS: [10.0.0.1]\nsystemReserved: {cpu: '1', memory: 1Gi}\n")
	write(t, filepath.Join(drop, "2.conf"), head+"maxPods: 9\nsystemReserved: {cpu: \"3\"}\n")
	write(t, filepath.Join(drop, "1.conf"), head+"maxPods: 8\nclusterDNS: [10.0.0.2]\n")
	write(t, filepath.Join(drop, "3.yaml"), "this is no drop-in")
	f, err := config.Load(base, drop)
	if err != nil {
		t.Fatal(err)
	}
	if f.MaxPods != 9 || !slices.Equal(f.ClusterDNS, []string{"10.0.0.2"}) || f.SystemReserved["cpu"] != "3" || f.SystemReserved["memory"] != "1Gi" {
		t.Errorf("%d pods, %v, %v", f.MaxPods, f.ClusterDNS, f.SystemReserved)
	}
}

func TestOtherKindsAreRefused(t *testing.T) {
	for _, text := range []string{"", "apiVersion: v1\nkind: Pod\n", "kind: KubeletConfiguration\n", head + "nosuch: 1\n"} {
		if err := config.Parse([]byte(text), &config.File{}); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"maxPods: 3\n":              "",
		"syncFrequency: 0s\n":       "",
		"cgroupsPerQOS: true\n":     "",
		"cgroupsPerQOS: false\n":    "cgroupsPerQOS",
		"podPidsLimit: 100\n":       "",
		"shutdownGracePeriod: 5s\n": "shutdownGracePeriod",
		"logging: {format: json, flushFrequency: 9}\n":                                                             "logging.flushFrequency",
		"authentication: {anonymous: {enabled: true}, webhook: {cacheTTL: 0s}, x509: {clientCAFile: /a}}\n":        "",
		"authorization: {mode: Webhook}\nmemorySwap: {swapBehavior: LimitedSwap}\nkernelMemcgNotification: true\n": "kernelMemcgNotification memorySwap",
	} {
		f := &config.File{}
		if err := config.Parse([]byte(head+text), f); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if got, err := config.Ignored(f); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v are named, want %s (%v)", text, got, want, err)
		}
	}
}
