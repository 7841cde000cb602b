package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
)

// unusedFlags are the flags of kube-apiserver that are accepted, so that an existing manifest starts, and have no effect here. They are
// listed by the type of their values, which decides what the parser accepts.
var unusedFlags = []struct {
	add   func(fl *pflag.FlagSet, name string)
	names []string
}{
	{func(fl *pflag.FlagSet, name string) { fl.Bool(name, false, "") }, []string{
		"aggregator-reject-forwarding-redirect", "audit-log-batch-throttle-enable", "audit-log-compress", "audit-log-truncate-enabled", "audit-webhook-truncate-enabled",
		"contention-profiling", "disable-http2-serving", "emulation-forward-compatible", "enable-aggregator-routing", "enable-bootstrap-token-auth",
		"enable-garbage-collector", "enable-logs-handler", "log-json-split-stream", "log-text-split-stream", "permit-address-sharing", "permit-port-sharing",
		"runtime-config-emulation-forward-compatible", "service-account-lookup", "shutdown-send-retry-after",
	}},
	{func(fl *pflag.FlagSet, name string) { fl.Int(name, 0, "") }, []string{
		"audit-log-batch-throttle-burst", "audit-log-truncate-max-batch-size", "audit-log-truncate-max-event-size", "audit-webhook-truncate-max-batch-size",
		"audit-webhook-truncate-max-event-size", "delete-collection-workers", "http2-max-streams-per-connection", "kubernetes-service-node-port",
		"lease-reuse-duration-seconds", "max-connection-bytes-per-sec",
	}},
	{func(fl *pflag.FlagSet, name string) { fl.Float32(name, 0, "") }, []string{"audit-log-batch-throttle-qps"}},
	{func(fl *pflag.FlagSet, name string) { fl.Duration(name, 0, "") }, []string{
		"coordinated-leadership-lease-duration", "coordinated-leadership-renew-deadline", "coordinated-leadership-retry-period", "etcd-count-metric-poll-period",
		"etcd-db-metric-poll-interval", "etcd-healthcheck-timeout", "etcd-readycheck-timeout", "livez-grace-period", "log-flush-frequency",
		"shutdown-watch-termination-grace-period", "storage-initialization-timeout",
	}},
	{func(fl *pflag.FlagSet, name string) { fl.String(name, "", "") }, []string{
		"allow-metric-labels-manifest", "audit-log-version", "audit-webhook-version", "debug-socket-path", "egress-selector-config-file", "endpoint-reconciler-type",
		"peer-advertise-ip", "peer-advertise-port", "peer-ca-file", "service-account-signing-endpoint", "show-hidden-metrics-for-version", "storage-media-type",
		"tracing-config-file",
	}},
	{func(fl *pflag.FlagSet, name string) { fl.StringSlice(name, nil, "") }, []string{
		"admission-control", "disabled-metrics", "emulated-version", "etcd-servers-overrides", "min-compatibility-version",
	}},
	{func(fl *pflag.FlagSet, name string) { fl.StringToString(name, nil, "") }, []string{"allow-metric-labels"}},
	{func(fl *pflag.FlagSet, name string) { fl.StringToInt(name, nil, "") }, []string{"vmodule"}},
	{func(fl *pflag.FlagSet, name string) { fl.Var(&resource.QuantityValue{}, name, "") }, []string{"log-json-info-buffer-size", "log-text-info-buffer-size"}},
	{func(fl *pflag.FlagSet, name string) { fl.Var(&featureGates{}, name, "") }, []string{"feature-gates"}},
}

// addUnused adds the flags without effect. --help does not show them.
func addUnused(fl *pflag.FlagSet) {
	for _, kind := range unusedFlags {
		for _, name := range kind.names {
			kind.add(fl, name)
			fl.Lookup(name).Hidden = true
		}
	}
}

// warnOfUnused names the flags without effect that the command line has, in one message.
func warnOfUnused(fl *pflag.FlagSet, log *slog.Logger) {
	var given []string
	for _, kind := range unusedFlags {
		for _, name := range kind.names {
			if fl.Changed(name) {
				given = append(given, "--"+name)
			}
		}
	}
	if len(given) == 0 {
		return
	}
	slices.Sort(given)
	log.Warn("flags of kube-apiserver were given that have no effect here", "flags", strings.Join(given, " "))
}

// featureGates is the value of --feature-gates: [component:]gate=bool, separated by commas. The gates themselves are not known here.
type featureGates struct{ text []string }

// Set implements pflag.Value.
func (g *featureGates) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		gate, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case gate == "" && !ok:
			continue
		case !ok:
			return fmt.Errorf("missing bool value for %s", gate)
		}
		if _, err := strconv.ParseBool(strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("invalid value of %s=%s, err: %w", gate, value, err)
		}
	}
	g.text = append(g.text, text)
	return nil
}

// String implements pflag.Value.
func (g *featureGates) String() string { return strings.Join(g.text, ",") }

// Type implements pflag.Value.
func (g *featureGates) Type() string { return "colonSeparatedMultimapStringString" }
