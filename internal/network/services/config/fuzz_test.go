package config_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/millrace/millrace/internal/network/services/config"
)

// Whatever a file says, it is an error or a configuration that is complete with defaults: written and read again it is
// the same.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{
		"", head, head + "clusterCIDR: 10.244.0.0/16\n", head + "conntrack: {min: -1, tcpCloseWaitTimeout: null}\n", head + "nftables: null\nipvs: {scheduler: rr}\n",
		head + "nodePortAddresses: [10.0.0.0/8]\nhealthzBindAddress: \"[::1]:1\"\n", head + "logging: {verbosity: 9, format: json}\nfeatureGates: {A: true}\n", head + "metricsBindAddress: \"::\"\n",
		head + "healthzBindAddress: 0[", head + "featureGates: {}",
		`{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1","kind":"KubeProxyConfiguration","oomScoreAdj":-2000,"iptables":{"masqueradeBit":3}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := config.Parse(text)
		if err != nil {
			return
		}
		if _, err := config.Ignored(file); err != nil {
			t.Errorf("the fields without an effect of %q: %v", text, err)
		}
		if config.Check(file) != nil {
			return
		}
		written, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse(written)
		if err != nil {
			t.Fatalf("%q was written as %s, which cannot be read: %v", text, written, err)
		}
		if twice, err := json.Marshal(again); err != nil || !bytes.Equal(twice, written) {
			t.Errorf("%q was written as %s, and when that was read as %s (%v)", text, written, twice, err)
		}
	})
}
