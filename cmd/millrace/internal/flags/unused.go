package flags

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Unused are flags of one of Kubernetes' programs that are accepted, so that an existing manifest starts, and have no
// effect here. They are listed by the type of their values, which decides what the parser accepts.
type Unused []struct {
	kind  func(fl *pflag.FlagSet, name string)
	Names []string
}

// The types of values.
var (
	unusedBool     = func(fl *pflag.FlagSet, name string) { fl.Bool(name, false, "") }
	unusedInt      = func(fl *pflag.FlagSet, name string) { fl.Int(name, 0, "") }
	unusedFloat    = func(fl *pflag.FlagSet, name string) { fl.Float32(name, 0, "") }
	unusedDuration = func(fl *pflag.FlagSet, name string) { fl.Duration(name, 0, "") }
	unusedString   = func(fl *pflag.FlagSet, name string) { fl.String(name, "", "") }
	unusedStrings  = func(fl *pflag.FlagSet, name string) { fl.StringSlice(name, nil, "") }
	unusedPairs    = func(fl *pflag.FlagSet, name string) { fl.StringToString(name, nil, "") }
	unusedPatterns = func(fl *pflag.FlagSet, name string) { fl.StringToInt(name, nil, "") }
	unusedQuantity = func(fl *pflag.FlagSet, name string) { fl.Var(&resource.QuantityValue{}, name, "") }
)

// UnusedByServer are those of kube-apiserver.
var UnusedByServer = Unused{
	{unusedBool, []string{
		"aggregator-reject-forwarding-redirect", "audit-log-batch-throttle-enable", "audit-log-compress", "audit-log-truncate-enabled", "audit-webhook-truncate-enabled",
		"contention-profiling", "disable-http2-serving", "emulation-forward-compatible", "enable-aggregator-routing", "enable-bootstrap-token-auth",
		"enable-garbage-collector", "enable-logs-handler", "log-json-split-stream", "log-text-split-stream", "permit-address-sharing", "permit-port-sharing",
		"runtime-config-emulation-forward-compatible", "service-account-lookup", "shutdown-send-retry-after",
	}},
	{unusedInt, []string{
		"audit-log-batch-throttle-burst", "audit-log-truncate-max-batch-size", "audit-log-truncate-max-event-size", "audit-webhook-truncate-max-batch-size",
		"audit-webhook-truncate-max-event-size", "delete-collection-workers", "http2-max-streams-per-connection", "kubernetes-service-node-port",
		"lease-reuse-duration-seconds", "max-connection-bytes-per-sec",
	}},
	{unusedFloat, []string{"audit-log-batch-throttle-qps"}},
	{unusedDuration, []string{
		"coordinated-leadership-lease-duration", "coordinated-leadership-renew-deadline", "coordinated-leadership-retry-period", "etcd-count-metric-poll-period",
		"etcd-db-metric-poll-interval", "etcd-healthcheck-timeout", "etcd-readycheck-timeout", "livez-grace-period", "log-flush-frequency",
		"shutdown-watch-termination-grace-period", "storage-initialization-timeout",
	}},
	{unusedString, []string{
		"allow-metric-labels-manifest", "audit-log-version", "audit-webhook-version", "debug-socket-path", "endpoint-reconciler-type",
		"peer-advertise-ip", "peer-advertise-port", "peer-ca-file", "show-hidden-metrics-for-version", "storage-media-type",
		"tracing-config-file",
	}},
	{unusedStrings, []string{"disabled-metrics", "emulated-version", "min-compatibility-version"}},
	{unusedPairs, []string{"allow-metric-labels"}},
	{unusedPatterns, []string{"vmodule"}},
	{unusedQuantity, []string{"log-json-info-buffer-size", "log-text-info-buffer-size"}},
}

// Add adds the flags. --help does not show them.
func (u Unused) Add(fl *pflag.FlagSet) {
	for _, some := range u {
		for _, name := range some.Names {
			some.kind(fl, name)
			fl.Lookup(name).Hidden = true
		}
	}
}

// Warn names the flags that the command line has, in one message.
func (u Unused) Warn(fl *pflag.FlagSet, program string, log *slog.Logger) {
	var given []string
	for _, some := range u {
		for _, name := range some.Names {
			if fl.Changed(name) {
				given = append(given, "--"+name)
			}
		}
	}
	if len(given) == 0 {
		return
	}
	slices.Sort(given)
	log.Warn("flags of "+program+" were given that have no effect here", "flags", strings.Join(given, " "))
}
