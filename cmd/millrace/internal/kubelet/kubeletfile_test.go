package kubelet

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kubelet/logs"
	"github.com/millrace/millrace/internal/kubelet/server"
)

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// kubeletWith returns the flags of `millrace kubelet` after they have read a file, and the command.
func kubeletWith(t *testing.T, file string, args ...string) (*Flags, *cobra.Command, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(kubeletHead+file), 0o600); err != nil {
		t.Fatal(err)
	}
	f, c := &Flags{}, &cobra.Command{}
	f.RegisterAll(c)
	if err := c.ParseFlags(append(args, "--config="+path)); err != nil {
		t.Fatal(err)
	}
	return f, c, f.read(c.Flags())
}

func TestTheKubeletsFileReachesItsOptions(t *testing.T) {
	f, _, err := kubeletWith(t, `
staticPodPath: /manifests
staticPodURL: http://pods
staticPodURLHeader: {x-a: [b]}
podLogsDir: /logs
fileCheckFrequency: 1s
httpCheckFrequency: 2s
maxPods: 7
clusterDNS: [10.96.0.10]
clusterDomain: x.local
nodeStatusUpdateFrequency: 3s
nodeStatusReportFrequency: 4s
nodeLeaseDurationSeconds: 20
providerID: cloud://1
registerNode: false
registerWithTaints: [{key: a, value: b, effect: NoSchedule}]
kubeReserved: {cpu: 100m}
systemReserved: {cpu: 200m, memory: 1Gi}
evictionHard: {memory.available: 200Mi}
mergeDefaultEvictionSettings: true
evictionPressureTransitionPeriod: 6s
evictionSoft: {memory.available: 300Mi, nodefs.available: 20%}
evictionSoftGracePeriod: {memory.available: 1m, nodefs.available: 30s}
evictionMinimumReclaim: {memory.available: 50Mi}
evictionMaxPodGracePeriod: 9
registryPullQPS: 0
registryBurst: 3
eventRecordQPS: 4
eventBurst: 5
podPidsLimit: 64
oomScoreAdj: -5
runtimeRequestTimeout: 10s
cpuCFSQuotaPeriod: 20ms
authentication: {anonymous: {enabled: true}, webhook: {enabled: false, cacheTTL: 11s}}
authorization: {mode: AlwaysAllow, webhook: {cacheAuthorizedTTL: 12s, cacheUnauthorizedTTL: 13s}}
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 60
imageMinimumGCAge: 7s
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
cgroupRoot: /root
serializeImagePulls: false
maxParallelImagePulls: 2
crashLoopBackOff: {maxContainerRestartPeriod: 8s}
containerRuntimeEndpoint: unix:///run/x.sock
`)
	if err != nil {
		t.Fatal(err)
	}
	o, err := f.options()
	if err != nil {
		t.Fatal(err)
	}
	policy, err := f.policy.policy()
	for _, c := range []struct{ what, got, want any }{
		{"sources", []any{o.Manifests, o.ManifestURL, o.ManifestHeader.Get("x-a"), o.SourceEvery, o.URLEvery}, []any{"/manifests", "http://pods", "b", time.Second, 2 * time.Second}},
		{"the node", []any{o.ProviderID, o.NoRegister, o.StatusEvery, o.LeaseFor, o.LeaseEvery, f.taints}, []any{"cloud://1", true, 4 * time.Second, 20 * time.Second, 5 * time.Second, []string{"a=b:NoSchedule"}}},
		{"DNS", []any{o.ClusterDNS, o.ClusterDomain}, []any{[]string{"10.96.0.10"}, "x.local"}},
		{"reserved", []any{o.Reserved.Cpu().String(), o.Reserved.Memory().String(), o.Capacity.Pods().Value()}, []any{"300m", "1Gi", int64(7)}},
		{"eviction", []any{o.Eviction.Hard.Words()["memory.available"], o.Eviction.Hard.Words()["nodefs.available"], o.PressureHolds}, []any{"200Mi", "10%", 6 * time.Second}},
		{"soft eviction", []any{o.Eviction.Soft.Words(), o.Eviction.GraceWords(), o.Eviction.Reclaim.Words(), o.EvictionGrace}, []any{
			map[string]string{"memory.available": "300Mi", "nodefs.available": "20%"}, map[string]string{"memory.available": "1m0s", "nodefs.available": "30s"},
			map[string]string{"memory.available": "50Mi"}, 9 * time.Second}},
		{"limits", []any{o.PullRate, o.PullBurst, f.limits.events, f.limits.eventBurst, o.PIDs, f.limits.oomScore, o.RequestTime, o.CPUPeriod}, []any{
			0, 3, 4, 5, int64(64), -5, 10 * time.Second, 20 * time.Millisecond}},
		{"clients", []any{policy, err}, []any{server.Policy{Anonymous: true, NoTokens: true, AllowAll: true, KeepUser: 11 * time.Second, KeepAllowed: 12 * time.Second, KeepRefused: 13 * time.Second}, error(nil)}},
		{"images", []any{o.ImageHighUse, o.ImageLowUse, o.ImageRest, o.Pulls}, []any{70, 60, 7 * time.Second, 2}},
		{"logs", []any{o.Rotation, o.Logs}, []any{logs.Rotation{Size: 1 << 20, Files: 3}, "/logs"}},
		{"the runtime", []any{o.Socket, o.CgroupParent, o.Backoff.Max}, []any{"unix:///run/x.sock", "/root", 8 * time.Second}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%v: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestFlagsOverrideTheKubeletsFile(t *testing.T) {
	f, _, err := kubeletWith(t, "maxPods: 7\nserializeImagePulls: false\nkubeAPIQPS: 9\n", "--max-pods=9", "--serialize-image-pulls", "--kube-api-qps=5")
	if err != nil {
		t.Fatal(err)
	}
	if o, err := f.options(); err != nil || o.Capacity.Pods().Value() != 9 || o.Pulls != 1 || f.Pace.PerSecond != 5 {
		t.Errorf("%v, %d pulls, %v requests, %v", o.Capacity, o.Pulls, f.Pace.PerSecond, err)
	}
}

func TestWrongFilesOfTheKubeletAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"maxPod: 7": `unknown field "maxPod"`, "featureGates: {NoSuchGate: true}": "unrecognized feature gate: NoSuchGate",
		"serializeImagePulls: true\nmaxParallelImagePulls: 2": "maxParallelImagePulls 2 must not be larger than 1 if serializeImagePulls is true",
	} {
		if _, _, err := kubeletWith(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFieldsOfTheKubeletsFileWithoutEffectAreNamedInOneWarning(t *testing.T) {
	f, c, err := kubeletWith(t, "failSwapOn: false\nmaxPods: 7\nauthentication: {anonymous: {enabled: false}, webhook: {enabled: true}}\n", "--fail-swap-on=false")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := f.warn(c.Flags(), slog.New(slog.NewTextHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`flags of the kubelet were given that have no effect here" flags=--fail-swap-on`, `fields=[failSwapOn]`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in %s", want, out.String())
		}
	}
}

func TestWrongFlagsOfTheKubeletAreRefused(t *testing.T) {
	for flag, want := range map[string]string{
		"--eviction-soft=memory.available<1Gi":                               "grace period must be specified for the soft eviction threshold memory.available",
		"--eviction-soft=memory.available=1Gi":                               "is not signal<amount",
		"--eviction-minimum-reclaim=memory.available<1Gi":                    "is not signal=amount",
		"--eviction-soft-grace-period=memory.available=soon":                 "invalid duration",
		"--registry-qps=-1":                                                  "must not be a negative number",
		"--oom-score-adj=1001":                                               "must be between -1000 and 1000",
		"--cpu-cfs-quota-period=2s":                                          "must be between 1ms and 1s",
		"--runtime-request-timeout=0s":                                       "must be positive",
		"--image-credential-provider-config=/etc/kubernetes/credential.yaml": "must be set together",
	} {
		f, _, err := kubeletWith(t, "", flag)
		if err == nil {
			_, err = f.options()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	f, _, err := kubeletWith(t, "", "--authorization-mode=Never")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.policy.policy(); err == nil {
		t.Error("an unknown mode is accepted")
	}
}
