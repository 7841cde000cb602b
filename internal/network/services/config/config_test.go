package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/network/services/config"
)

// head begins each file.
const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

func TestAFileIsReadWithKubeProxysDefaults(t *testing.T) {
	f, err := config.Parse([]byte(head + "clusterCIDR: 10.244.0.0/16\nhealthzBindAddress: 127.0.0.1\nconntrack: {min: 7}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if f.ClusterCIDR != "10.244.0.0/16" || f.HealthzBindAddress != "127.0.0.1:10256" || f.MetricsBindAddress != "127.0.0.1:10249" {
		t.Errorf("the file has become %+v", f)
	}
	if *f.Conntrack.Min != 7 || *f.Conntrack.MaxPerCore != 32768 || f.Conntrack.TCPEstablishedTimeout.Hours() != 24 || *f.OOMScoreAdj != -999 {
		t.Errorf("the defaults are %+v and %d", f.Conntrack, *f.OOMScoreAdj)
	}
	if err := config.Check(f); err != nil {
		t.Error(err)
	}
}

func TestAFileWithAMistakeIsNotRead(t *testing.T) {
	for _, one := range []struct{ text, says string }{
		{head + "clusterCDIR: 10.0.0.0/8\n", `unknown field "clusterCDIR"`},
		{head + "conntrack: {minimum: 1}\n", `unknown field "conntrack.minimum"`},
		{head + "mode: nftables\nmode: nftables\n", `already set`},
		{"apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration\n", "no kind"},
		{"clusterCIDR: 10.0.0.0/8\n", "Kind"},
		{head + "mode: iptables\n", `mode "iptables" is not supported`},
		{head + "detectLocalMode: BridgeInterface\n", `detectLocalMode "BridgeInterface" is not supported`},
		{head + "nftables: {masqueradeBit: 3}\n", "nftables.masqueradeBit 3 is not supported"},
		{head + "oomScoreAdj: -2000\n", "oomScoreAdj -2000"},
		{head + "conntrack: {maxPerCore: -1}\n", "conntrack.maxPerCore -1"},
		{head + "conntrack: {udpTimeout: -1s}\n", "conntrack.udpTimeout -1s"},
		{head + "metricsBindAddress: here:1\n", `metricsBindAddress "here:1"`},
	} {
		f, err := config.Parse([]byte(one.text))
		if err == nil {
			err = config.Check(f)
		}
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%q: the error is %v, want %q", one.text, err, one.says)
		}
	}
}

func TestFieldsWithoutAnEffectAreNamed(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil,
		"clientConnection: {kubeconfig: /etc/k, qps: 50}\nfeatureGates: {A: true}\n":                            {"clientConnection.qps", "featureGates"},
		"ipvs: {scheduler: rr}\nnftables: {syncPeriod: 10s, masqueradeAll: true}\niptables: {syncPeriod: 1s}\n": {"iptables.syncPeriod", "ipvs.scheduler", "nftables.syncPeriod"},
		"portRange: 1-2\nwinkernel: {enableDSR: true}\nbindAddress: 10.0.0.1\nenableProfiling: true\n":          {"bindAddress", "enableProfiling", "portRange", "winkernel.enableDSR"},
		"nftables: {syncPeriod: 30s}\nmode: nftables\nlogging: {verbosity: 2}\n":                                nil,
		"logging: {flushFrequency: 9s}\n": {"logging.flushFrequency"},
	} {
		f, err := config.Parse([]byte(head + text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := config.Ignored(f)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v are named, want %v (%v)", text, got, want, err)
		}
	}
}
