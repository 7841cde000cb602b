package apiserver

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
)

func TestFlagsOfTheAPIServerHaveKubernetesMeaning(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &Flags{}
	c := &cobra.Command{}
	f.Register(c)
	if err := c.ParseFlags([]string{
		"--bind-address=127.0.0.1", "--secure-port=0", "--data=" + directory, "--cert-dir=" + directory, "--service-cluster-ip-range=10.1.0.0/16",
		"--etcd-servers=http://a:2379,http://b:2379", "--etcd-certfile=" + file, "--etcd-keyfile=" + file, "--etcd-cafile=" + file,
		"--etcd-start-timeout=7s", "--advertise-address=10.1.2.3",
		"--token-auth-file=" + file, "--client-ca-file=" + file, "--watch-cache-sizes=events#0,pods#100,deployments.apps#0",
		"--max-requests-inflight=7", "--max-mutating-requests-inflight=3", "--request-timeout=5s", "--min-request-timeout=60",
		"--proxy-client-cert-file=" + file, "--proxy-client-key-file=" + file,
		"--kubelet-client-certificate=" + file, "--kubelet-client-key=" + file, "--kubelet-timeout=7s", "--kubelet-preferred-address-types=ExternalIP,Hostname",
		"--kubelet-certificate-authority=" + file, "--tls-cert-file=" + file, "--tls-private-key-file=" + file,
	}); err != nil {
		t.Fatal(err)
	}
	o, err := f.Options(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.Listen != "127.0.0.1:0" || o.Advertise != "10.1.2.3" || o.Data != directory || o.Keys != directory || o.ServiceRange != "10.1.0.0/16" || o.TokenFile != file {
		t.Errorf("where: %+v", o)
	}
	if !reflect.DeepEqual(o.Etcd.Servers, []string{"http://a:2379", "http://b:2379"}) || o.Etcd.CertFile != file || o.Etcd.KeyFile != file || o.Etcd.CAFile != file || o.Etcd.StartTimeout != 7*time.Second {
		t.Errorf("etcd: %+v", o.Etcd)
	}
	if !reflect.DeepEqual(o.Uncached, []string{"events", "deployments.apps"}) {
		t.Errorf("not cached: %v", o.Uncached)
	}
	s := o.Serving
	if s.MaxInFlight != 7 || s.MaxMutatingInFlight != 3 || s.RequestTimeout != 5*time.Second || s.MinRequestTimeout != time.Minute {
		t.Errorf("bounds: %+v", s)
	}
	if s.ClientCAFile != file || s.KubeletCAFile != file || s.CertFile != file || s.KeyFile != file || s.Proxy != (millrace.ProxyOptions{CertFile: file, KeyFile: file}) {
		t.Errorf("certificates: %+v", s)
	}
	if want := (millrace.KubeletOptions{CertFile: file, KeyFile: file, Timeout: 7 * time.Second, AddressTypes: []string{"ExternalIP", "Hostname"}}); !reflect.DeepEqual(s.Kubelets, want) {
		t.Errorf("kubelets: %+v", s.Kubelets)
	}
	if o.CompactEvery != 5*time.Minute {
		t.Errorf("compaction every %v", o.CompactEvery)
	}
	f.watchCache, f.compactionInterval = false, 0
	if o, err = f.Options(nil); err != nil || !reflect.DeepEqual(o.Uncached, []string{"*"}) || o.CompactEvery >= 0 {
		t.Errorf("without a watch cache and compaction: %v, %v, %v", o.Uncached, o.CompactEvery, err)
	}
	if o.Controllers == nil || len(o.Controllers) > 0 || !o.NoScheduler || o.Nodes != 0 || !o.ControllersElsewhere {
		t.Errorf("other parts: %+v", o)
	}
}
