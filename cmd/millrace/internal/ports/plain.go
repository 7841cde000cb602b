package ports

import (
	"context"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace"
	"github.com/millrace/millrace/loop"
)

// Plain configure the ports for health and metrics without TLS, under kube-proxy's names.
type Plain struct{ health, metrics string }

func (p *Plain) Add(c *cobra.Command, health, metrics string) {
	c.Flags().StringVar(&p.health, "healthz-bind-address", health, "address and port of /healthz and /livez; empty: none")
	c.Flags().StringVar(&p.metrics, "metrics-bind-address", metrics, "address and port of /metrics; empty: none")
}

// Serve opens the ports. The returned runner serves them.
func (p *Plain) Serve(ctx context.Context, registry *prometheus.Registry, clients *loop.Clients) (loop.Runner, error) {
	told, err := NewTelling(registry, clients, nil)
	if err != nil {
		return nil, err
	}
	var all []loop.Runner
	for _, one := range []struct {
		flag, address string
		metrics       prometheus.Gatherer
	}{{"healthz-bind-address", p.health, nil}, {"metrics-bind-address", p.metrics, told.Metrics}} {
		if one.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", one.address)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", one.flag, err)
		}
		all = append(all, loop.Serve(listener, loop.Endpoints(clients, one.metrics)))
	}
	return loop.Join(all...), nil
}

// buildInfo is the metric kubernetes_build_info.
func buildInfo() prometheus.Collector {
	v := millrace.Version()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "What was built: version, Go, compiler, platform.",
		ConstLabels: prometheus.Labels{
			"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit, "git_tree_state": v.GitTreeState,
			"build_date": v.BuildDate, "go_version": v.GoVersion, "compiler": v.Compiler, "platform": v.Platform,
		},
	}, func() float64 { return 1 })
}
