package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/internal/controllers"
	"github.com/millrace/millrace/internal/controllers/legacytoken"
	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/loop"
)

// execute runs a command line and returns what it prints.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := commandFor("millrace", args)
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

func TestInvalidFlagsAreRefusedInOneLine(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ args, want string }{
		{"up --nosuch", "unknown flag: --nosuch: see millrace up --help"},
		{"up --nodes x", `invalid argument "x" for "--nodes"`},
		{"up --nodes -1", "--nodes -1 is less than none"},
		{"up --data=", "--data is empty"},
		{"up --listen 6443", `--listen "6443" is not an address such as 127.0.0.1:6443`},
		{"up --runtime docker", `--runtime "docker" is neither hollow nor cri:SOCKET`},
		{"up --controllers nosuch", `--controllers: "nosuch" is not in the list of known controllers: `},
		{"up --log-level loud", `--log-level "loud" is none of debug, info, warn, error`},
		{"up --service-cluster-ip-range ten", `--service-cluster-ip-range "ten" is not a range such as 10.96.0.0/16`},
		{"up --token-auth-file " + missing, "--token-auth-file: open " + missing},
		{"up surplus", "unknown command"},
		{"apiserver --storage-backend sqlite", `--storage-backend "sqlite" is neither etcd3 nor memory`},
		{"apiserver --logging-format xml", `--logging-format "xml" is neither text nor json`},
		{"apiserver --bind-address localhost", `--bind-address "localhost" is not an IP address`},
		{"apiserver --secure-port 70000", "--secure-port 70000 is not a port"},
		{"apiserver --etcd-prefix /other", `--etcd-prefix "/other" is not supported`},
		{"apiserver --etcd-compaction-interval -1s", "--etcd-compaction-interval -1s is less than 0"},
		{"apiserver --watch-cache-sizes pods", `--watch-cache-sizes: "pods" is not resource[.group]#size`},
		{"apiserver --max-requests-inflight 0", "--max-requests-inflight 0 is not more than 0"},
		{"apiserver --request-timeout 0s", "--request-timeout 0s is not more than 0"},
		{"apiserver --tls-cert-file x", "--tls-cert-file and --tls-private-key-file belong together"},
		{"apiserver --tls-cipher-suites TLS_AES_128_GCM_SHA256,x", "Cipher suite x not supported or doesn't exist"},
		{"apiserver --tls-min-version TLS12", `unknown tls version "TLS12"`},
		{"apiserver --tls-curve-preferences x", `strconv.ParseInt: parsing "x": invalid syntax`},
		{"apiserver --tls-curve-preferences 29,7777", "curve preference 7777 is not supported by the current Go version"},
		{"apiserver --tls-curve-preferences 65565", "curve preference 65565 is not supported by the current Go version"},
		{"apiserver --tls-sni-cert-key a", `invalid argument "a" for "--tls-sni-cert-key" flag: expected comma separated certificate and key file paths`},
		{"apiserver --tls-sni-cert-key a,b:", "empty names list is not allowed"},
		{"apiserver --kubelet-client-certificate x", "--kubelet-client-certificate and --kubelet-client-key belong together"},
		{"apiserver --kubelet-client-certificate " + missing + " --kubelet-client-key /dev/null", "--kubelet-client-certificate: open " + missing},
		{"apiserver --proxy-client-key-file x", "--proxy-client-cert-file and --proxy-client-key-file belong together"},
		{"apiserver --proxy-client-key-file " + missing + " --proxy-client-cert-file /dev/null", "--proxy-client-key-file: open " + missing},
		{"apiserver --event-ttl -1s", "--event-ttl -1s is less than 0"},
		{"apiserver --service-node-port-range 5-1", "end port cannot be less than start port: 5-1"},
		{"apiserver --service-node-port-range 0-7", "--service-node-port-range 0-7 has port 0"},
		{"apiserver --strict-transport-security-directives max-age=x", "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload."},
		{"apiserver --cors-allowed-origins *", "--cors-allowed-origins has an invalid regular expression: error parsing regexp"},
		{"apiserver --cors-allowed-origins a.com", "regular expression does not pin to start/end of host in the origin header"},
		{"apiserver --cors-allowed-origins //a.com", "regular expression does not pin to start/end of host in the origin header"},
		{"apiserver --goaway-chance 0.03", "--goaway-chance can not be less than 0 or greater than 0.02"},
		{"apiserver --shutdown-delay-duration -1s", "--shutdown-delay-duration can not be negative value"},
		{"apiserver --kubelet-timeout -1s", "--kubelet-timeout -1s is less than 0"},
		{"apiserver --authorization-mode Nobody", `authorization-mode "Nobody" is not a valid mode`},
		{"apiserver --authorization-mode ABAC", "authorization-mode ABAC's authorization policy file not passed"},
		{"apiserver --authorization-mode Webhook", "authorization-mode Webhook's authorization config file not passed"},
		{"apiserver --authorization-mode RBAC,RBAC", `authorization-mode ["RBAC" "RBAC"] has mode specified more than once`},
		{"apiserver --authorization-mode RBAC --authorization-config x", "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined"},
		{"apiserver --authorization-config " + missing, "--authorization-config: open " + missing},
		{"apiserver --oidc-client-id a", "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"},
		{"apiserver --oidc-issuer-url https://a --oidc-client-id b --authentication-config x", "authentication-config file and oidc-* flags are mutually exclusive"},
		{"apiserver --oidc-issuer-url https://a --oidc-client-id b --oidc-required-claim c", `--oidc-required-claim: malformed pair, expect string=string: "c"`},
		{"apiserver --authentication-config " + missing, "--authentication-config: open " + missing},
		{"apiserver --client-ca-file " + missing, "--client-ca-file: open " + missing},
		{"apiserver --disable-admission-plugins Nope", `disable-admission-plugins plugin "Nope" is unknown`},
		{"apiserver --enable-admission-plugins PodSecurity --disable-admission-plugins PodSecurity", "[PodSecurity] in enable-admission-plugins and disable-admission-plugins overlapped"},
		{"controllers --kubeconfig " + missing, "--kubeconfig: stat " + missing},
		{"controllers --controllers nosuch", `"nosuch" is not in the list of known controllers`},
		{"controllers --leader-elect-lease-duration 5s", "--leader-elect-lease-duration 5s is not longer than --leader-elect-renew-deadline 10s"},
		{"controllers --node-monitor-grace-period 0s", "--node-monitor-grace-period 0s is not more than 0"},
		{"controllers --unhealthy-zone-threshold 2", "--unhealthy-zone-threshold 2 is not a share of more than 0 and at most 1"},
		{"controllers --concurrent-job-syncs -1", "--concurrent-job-syncs -1 is less than 0"},
		{"controllers --concurrent-gc-syncs x", `invalid argument "x" for "--concurrent-gc-syncs" flag`},
		{"controllers --horizontal-pod-autoscaler-sync-period 0s", "--horizontal-pod-autoscaler-sync-period 0s is not more than 0"},
		{"controllers --bind-address localhost", `--bind-address "localhost" is not an IP address`},
		{"controllers --tls-min-version TLS12", `unknown tls version "TLS12"`},
		{"controllers --tls-cert-file x", "--tls-cert-file and --tls-private-key-file belong together"},
		{"controllers --requestheader-client-ca-file " + missing, "--requestheader-client-ca-file: open " + missing},
		{"controllers --authentication-kubeconfig " + missing, "--authentication-kubeconfig: open " + missing},
		{"controllers --root-ca-file " + missing, "--root-ca-file: open " + missing},
		{"controllers --leader-elect-resource-lock configmaps", `--leader-elect-resource-lock "configmaps" is not supported: only leases are`},
		{"controllers --feature-gates NoSuchGate=true", "unrecognized feature gate: NoSuchGate"},
		{"scheduler --secure-port 70000", "--secure-port 70000 is not a port"},
		{"scheduler --leader-elect-retry-period 9s", "--leader-elect-renew-deadline 10s is not longer than 1.2 times --leader-elect-retry-period 9s"},
		{"scheduler --kubeconfig " + missing, "--kubeconfig: stat " + missing},
		{"kubelet --healthz-port -1", "--healthz-port -1 is not a port"},
		{"kubelet --manifest-url-header a", `malformed pair, expect string:string: "a"`},
		{"kubelet --config " + missing, "--config: open " + missing},
		{"kubelet --config-dir " + missing, "--config: open " + missing},
		{"kubelet --register-with-taints a=b:Never", "the effect of \"a=b:Never\" is none of NoSchedule"},
		{"kubelet --register-with-taints a", `"a" is not key=value:effect`},
		{"kubelet --kubeconfig " + missing, "--kubeconfig: stat " + missing},
		{"nosuch", `unknown command "nosuch"`},
	} {
		_, err := execute(t, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

func TestWithoutAKubeconfigTheErrorSaysWhereToGetOne(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if _, err := execute(t, "scheduler"); err == nil || !strings.Contains(err.Error(), "name one with --kubeconfig or $KUBECONFIG") {
		t.Errorf("%v", err)
	}
}

func TestFlagsOfTheAPIServerHaveKubernetesMeaning(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &apiserverFlags{}
	c := &cobra.Command{}
	f.register(c)
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
	o, err := f.options(nil)
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
	if o, err = f.options(nil); err != nil || !reflect.DeepEqual(o.Uncached, []string{"*"}) || o.CompactEvery >= 0 {
		t.Errorf("without a watch cache and compaction: %v, %v, %v", o.Uncached, o.CompactEvery, err)
	}
	if o.Controllers == nil || len(o.Controllers) > 0 || !o.NoScheduler || o.Nodes != 0 || !o.ControllersElsewhere {
		t.Errorf("other parts: %+v", o)
	}
}

func TestARealNodeReplacesTheHollowOneUnlessBothAreWanted(t *testing.T) {
	f := &upFlags{runtime: "cri:unix:///run/x.sock", listen: "127.0.0.1:0", controllers: "*", nodes: 1, balancer: "none"}
	f.data, f.serviceRange = "memory", "10.96.0.0/16"
	for given, nodes := range map[bool]int{false: 0, true: 1} {
		if o, err := f.options(given, nil); err != nil || o.Runtime != "unix:///run/x.sock" || o.Nodes != nodes {
			t.Errorf("%+v, %v", o, err)
		}
	}
}

func TestThresholdsReachTheRealNodeOfUp(t *testing.T) {
	f := &upFlags{runtime: "cri:unix:///run/x.sock", listen: "127.0.0.1:0", controllers: "*", balancer: "none", eviction: []string{"nodefs.available<1Gi"}}
	f.data, f.serviceRange = "memory", "10.96.0.0/16"
	if o, err := f.options(false, nil); err != nil || !maps.Equal(o.Eviction, map[string]string{"nodefs.available": "1Gi"}) {
		t.Errorf("%v, %v", o.Eviction, err)
	}
	f.eviction = []string{"nodefs.available=1Gi"}
	if _, err := f.options(false, nil); err == nil {
		t.Error("what is no threshold is taken")
	}
}

// loopFlagsOf returns the settings of loops after they have parsed a command line.
func loopFlagsOf(t *testing.T, args ...string) *loopFlags {
	t.Helper()
	f, fl := &loopFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(fl)
	if err := fl.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestConcurrencyFlagsReachTheirLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]bool{}
		var mu sync.Mutex // guards asked
		kube := fake.NewClientset()
		kube.Resources = []*metav1.APIResourceList{{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "resourceclaims", Kind: "ResourceClaim", Namespaced: true}, {Name: "devicetaintrules", Kind: "DeviceTaintRule"},
		}}}
		clients := loop.ClientsFor(kube)
		clients.Metadata = metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
		clients.Workers = func(loop string) int {
			mu.Lock()
			defer mu.Unlock()
			asked[loop] = true
			return 0
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all []loop.Runner
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range controllers.All(controllers.Options{Making: legacytoken.Making{Key: key}}) {
			for _, c := range concurrency {
				if c.loops[0] == e.Name {
					r, err := e.Make(clients)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, r)
				}
			}
		}
		ended := make(chan error)
		go func() { ended <- loop.Run(ctx, clients, all...) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for i, c := range concurrency {
			for _, name := range c.loops {
				if !asked[name] {
					t.Errorf("--%s names the loop %s, which does not exist", c.flag, name)
				}
				f := loopFlagsOf(t, fmt.Sprintf("--%s=%d", c.flag, 70+i))
				if n := f.workersOf(name); n != 70+i {
					t.Errorf("--%s: the loop %s has %d workers", c.flag, name, n)
				}
			}
		}
	})
}

func TestFlagsOfLoopsReachTheirOptions(t *testing.T) {
	o, err := loopFlagsOf(t, "--horizontal-pod-autoscaler-sync-period=3s", "--horizontal-pod-autoscaler-downscale-stabilization=4s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=5s", "--horizontal-pod-autoscaler-initial-readiness-delay=6s",
		"--horizontal-pod-autoscaler-tolerance=0.7", "--enable-dynamic-provisioning=false", "--disable-force-detach-on-timeout",
		"--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8", "--service-cluster-ip-range=10.96.0.0/16", "--node-cidr-mask-size=22").options()
	if err != nil {
		t.Fatal(err)
	}
	want := podautoscaler.Options{
		SyncPeriod: 3 * time.Second, DownscaleStabilization: 4 * time.Second, CPUInitialization: 5 * time.Second, InitialReadiness: 6 * time.Second, Tolerance: 0.7,
	}
	if o.Autoscaling != want {
		t.Errorf("autoscaling %+v", o.Autoscaling)
	}
	if !o.Claiming.NoProvisioning || !o.Attaching.NeverForce {
		t.Errorf("volumes %+v, %+v", o.Claiming, o.Attaching)
	}
	if r := o.Ranges; r.MaskSize4 != 22 || len(r.ClusterCIDRs) != 1 || len(r.Taken) != 1 || r.Taken[0].String() != "10.96.0.0/16" {
		t.Errorf("ranges %+v", r)
	}
	if _, err := loopFlagsOf(t, "--allocate-node-cidrs", "--cluster-cidr=10.0.0.0/8,fd00::/48", "--node-cidr-mask-size=22").options(); err == nil {
		t.Error("one mask size was accepted for two families")
	}
	names, _ := loop.Names(loopFlagsOf(t, "--enable-garbage-collector=false").entries(controllers.Options{}))
	if slices.Contains(names, "garbage-collector-controller") {
		t.Error("the garbage collector runs though it is turned off")
	}
}

func TestAnExplicitZeroIsNotTheDefault(t *testing.T) {
	o, err := loopFlagsOf(t, "--node-eviction-rate=0", "--terminated-pod-gc-threshold=0", "--node-monitor-grace-period=5s",
		"--horizontal-pod-autoscaler-downscale-stabilization=0", "--horizontal-pod-autoscaler-tolerance=0").options()
	if err != nil || o.Nodes.Rate >= 0 || o.Pods.Threshold >= 0 || o.Nodes.Grace != 5*time.Second || o.Nodes.ReducedRate != 0.01 || o.Nodes.LargeZone != 50 {
		t.Errorf("%+v, %v", o, err)
	}
	if a := o.Autoscaling; a.DownscaleStabilization > time.Nanosecond || a.Tolerance > 1e-300 || a.SyncPeriod != 15*time.Second {
		t.Errorf("%+v", a)
	}
}

func TestShellsGetTheirCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out, err := execute(t, "completion", shell); err != nil || !strings.Contains(out, "millrace") {
			t.Errorf("%s: %d bytes, %v", shell, len(out), err)
		}
	}
	if out, err := execute(t, "__complete", "apiserver", "--etcd-s"); err != nil || !strings.Contains(out, "--etcd-servers") {
		t.Errorf("%q, %v", out, err)
	}
}
