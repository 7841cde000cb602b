package network

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millrace/millrace/internal/network/services"
	"github.com/millrace/millrace/internal/network/services/config"
	"github.com/millrace/millrace/loop"
)

// serveProxy opens the ports of a proxy, with kube-proxy's paths. The returned runner serves them.
func serveProxy(ctx context.Context, proxy *services.Proxy, file *config.File, metrics *prometheus.Registry) (loop.Runner, error) {
	health, err := proxy.Health(metrics)
	if err != nil {
		return nil, err
	}
	var all []loop.Runner
	for _, one := range []struct {
		field, address string
		handler        http.Handler
	}{
		{"healthzBindAddress", file.HealthzBindAddress, health},
		{"metricsBindAddress", file.MetricsBindAddress, proxyMetrics(file, metrics)},
	} {
		if one.address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", one.address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.field, err)
		}
		all = append(all, loop.Serve(listener, one.handler))
	}
	return loop.Join(all...), nil
}

func proxyMetrics(file *config.File, metrics *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			fmt.Fprint(w, s)
		}
	}
	mux.Handle("/healthz", text("ok"))
	mux.Handle("/proxyMode", text(string(file.Mode)))
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kubeproxy.config.k8s.io": file}) // an error means that the client has disconnected
	})
	return mux
}
