package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
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
		{"up --node 3", "unknown flag: --node: did you mean --nodes? Otherwise see millrace up --help"},
		{"up --nodes x", `invalid argument "x" for "--nodes" flag: not a whole number: see millrace up --help`},
		{"up --nodes 99999999999999999999", `invalid argument "99999999999999999999" for "--nodes" flag: out of range`},
		{"up --no-scheduler=perhaps", `invalid argument "perhaps" for "--no-scheduler" flag: neither true nor false`},
		{"up --nodes -1", "--nodes -1 is less than none"},
		{"up --config " + missing, "--config: open " + missing},
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
		{"apiserver --tls-curve-preferences x", `invalid argument "x" for "--tls-curve-preferences" flag: not a whole number`},
		{"apiserver --tls-curve-preferences 29,x", `invalid argument "29,x" for "--tls-curve-preferences" flag: "x" is not a whole number`},
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
