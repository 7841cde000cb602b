package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// used are the fields with an effect, with those below them. Without a list all below are used.
var used = map[string][]string{
	"kind": nil, "apiVersion": nil,
	"staticPodPath": nil, "staticPodURL": nil, "staticPodURLHeader": nil, "podLogsDir": nil, "fileCheckFrequency": nil, "httpCheckFrequency": nil,
	"address": nil, "port": nil, "tlsCertFile": nil, "tlsPrivateKeyFile": nil, "tlsCipherSuites": nil, "tlsCurvePreferences": nil, "tlsMinVersion": nil,
	"rotateCertificates": nil, "serverTLSBootstrap": nil, "authentication": nil, "authorization": nil, "healthzPort": nil, "healthzBindAddress": nil,
	"clusterDNS": nil, "clusterDomain": nil, "nodeStatusUpdateFrequency": nil, "nodeStatusReportFrequency": nil, "nodeLeaseDurationSeconds": nil,
	"imageMinimumGCAge": nil, "imageGCHighThresholdPercent": nil, "imageGCLowThresholdPercent": nil, "cgroupRoot": nil, "maxPods": nil,
	"contentType": nil, "kubeAPIQPS": nil, "kubeAPIBurst": nil, "serializeImagePulls": nil, "maxParallelImagePulls": nil, "evictionHard": nil,
	"evictionPressureTransitionPeriod": nil, "mergeDefaultEvictionSettings": nil, "featureGates": nil, "containerLogMaxSize": nil, "containerLogMaxFiles": nil,
	"systemReserved": nil, "kubeReserved": nil, "providerID": nil, "logging": {"format", "verbosity"}, "crashLoopBackOff": nil,
	"seccompDefault": nil, "cpuCFSQuota": nil, "resolvConf": nil, "podsPerCore": nil, "nodeStatusMaxImages": nil, "enableDebuggingHandlers": nil,
	"evictionSoft": nil, "evictionSoftGracePeriod": nil, "evictionMaxPodGracePeriod": nil, "evictionMinimumReclaim": nil, "registryPullQPS": nil, "registryBurst": nil,
	"eventRecordQPS": nil, "eventBurst": nil, "oomScoreAdj": nil, "podPidsLimit": nil, "runtimeRequestTimeout": nil, "cpuCFSQuotaPeriod": nil,
	"registerWithTaints": nil, "registerNode": nil, "containerRuntimeEndpoint": nil,
}

// standard are the values of other fields that change nothing: Kubernetes' defaults, if they say what is done here.
var standard = map[string]any{
	"enableServer": true, "enableControllerAttachDetach": true, "makeIPTablesUtilChains": true,
	"cgroupsPerQOS": true, "cpuManagerPolicy": "none", "memoryManagerPolicy": "None", "topologyManagerPolicy": "none", "topologyManagerScope": "container",
	"failSwapOn": true, "hairpinMode": "promiscuous-bridge", "syncFrequency": "1m0s",
	"volumeStatsAggPeriod": "1m0s", "streamingConnectionIdleTimeout": "4h0m0s", "cpuManagerReconcilePeriod": "10s",
	"enforceNodeAllocatable": []any{"pods"},
	"maxOpenFiles":           1000000.0, "iptablesMasqueradeBit": 14.0, "iptablesDropBit": 15.0,
	"containerLogMaxWorkers": 1.0, "containerLogMonitorInterval": "10s", "configMapAndSecretChangeDetectionStrategy": "Watch",
	"localStorageCapacityIsolation": true, "enableProfilingHandler": false, "enableDebugFlagsHandler": false,
	"enableSystemLogHandler": false, "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
}

// Ignored returns the names of the fields that a file has and that have no effect, sorted.
func Ignored(f *File) ([]string, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	var have map[string]any
	if err := json.Unmarshal(text, &have); err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		below, known := used[name]
		switch {
		case empty(have[name]) || known && below == nil || reflect.DeepEqual(have[name], standard[name]):
		case !known:
			out = append(out, name)
		default:
			inner, _ := have[name].(map[string]any)
			for _, field := range slices.Sorted(maps.Keys(inner)) {
				if !slices.Contains(below, field) && !empty(inner[field]) {
					out = append(out, name+"."+field)
				}
			}
		}
	}
	return out, nil
}

// empty reports whether a value is that of a field that the file does not have. Durations and nested objects are always
// encoded.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == "" || v == "0s" || v == "0"
	case float64:
		return v == 0
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) && inner != false {
				return false
			}
		}
		return true
	}
	return false
}
