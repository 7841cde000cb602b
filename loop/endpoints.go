package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Endpoints serves /healthz and /livez (the process runs), /readyz (all caches are filled; if not, it says which and
// why) and /metrics. Without a gatherer there is no /metrics.
func Endpoints(c *Clients, metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }
	mux.HandleFunc("GET /healthz", ok)
	mux.HandleFunc("GET /livez", ok)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		atOnce, cancel := context.WithCancel(r.Context())
		cancel()
		if err := c.Informers.Synced(atOnce); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
	if metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	}
	return mux
}

// Serve serves HTTP on a listener until its context ends.
func Serve(listener net.Listener, handler http.Handler) Runner {
	return Func(func(ctx context.Context) error {
		server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		stopped := make(chan struct{})
		defer context.AfterFunc(ctx, func() {
			defer close(stopped)
			_ = server.Close() // clients will retry
		})()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve on %s: %w", listener.Addr(), err)
		}
		<-stopped
		return nil
	})
}
