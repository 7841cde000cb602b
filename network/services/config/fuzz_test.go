package config_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/millrace/millrace/network/services/config"
)

// Whatever a file says, it is an error or a configuration: complete with defaults, so that written and read again it is the same.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{
		"", head, head + "clusterCIDR: 10.244.0.0/16\n", head + "conntrack: {min: -1, tcpCloseWaitTimeout: null}\n", head + "nftables: null\nipvs: {scheduler: rr}\n",
		head + "nodePortAddresses: [10.0.0.0/8]\nhealthzBindAddress: \"[::1]:1\"\n", head + "logging: {verbosity: 9, format: json}\nfeatureGates: {A: true}\n", head + "metricsBindAddress: \"::\"\n",
		`{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1","kind":"KubeProxyConfiguration","oomScoreAdj":-2000,"iptables":{"masqueradeBit":3}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := config.Parse(text)
		if err != nil {
			return
		}
		_ = config.Check(file) // it finds whatever an accepted file asks for
		if _, err := config.Ignored(file); err != nil {
			t.Errorf("the fields without an effect of %q: %v", text, err)
		}
		written, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse(written)
		if err != nil || !reflect.DeepEqual(file, again) {
			t.Errorf("%q is read as %+v, and when it was written and read again as %+v (%v)", text, file, again, err)
		}
	})
}
