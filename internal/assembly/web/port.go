package web

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/server/apiserver"
	"github.com/millrace/millrace/internal/server/connections"
	"github.com/millrace/millrace/internal/server/h2"
)

const (
	// graceToClose is how long connections may take to end in order.
	graceToClose = time.Second
	// flushTime is how long written answers may take to reach the network.
	flushTime = 10 * time.Millisecond
)

// serve serves the connections of the port.
func (w *Web) serve(handler http.Handler, api *apiserver.Server, streams *connections.Connections, l *assembly.List) {
	server := &http.Server{
		Handler: w.o.Headers.around(handler), TLSConfig: w.access.TLS(), ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: slog.NewLogLogger(w.o.Logger.Handler(), slog.LevelDebug),
	}
	multiplexed := h2.New(h2.Options{MaxStreams: 1000, Logger: w.o.Logger})
	multiplexed.Serve(server)
	l.Until("listener", func() { shutDown(api, streams, server, multiplexed) }, func(context.Context) error {
		return server.ServeTLS(w.address.Listener, "", "")
	})
}

// shutDown ends the streams, waits for running requests, and then closes the rest.
func shutDown(api *apiserver.Server, streams *connections.Connections, server *http.Server, multiplexed *h2.Server) {
	endStreams(api, streams)
	ctx, cancel := context.WithTimeout(context.Background(), graceToClose)
	defer cancel()
	var idle sync.WaitGroup
	idle.Go(func() {
		// net/http would keep an HTTP/2 connection open for a second after its last answer.
		api.Idle(ctx)
		time.Sleep(flushTime)
		cancel()
	})
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
	cancel()
	idle.Wait()
	multiplexed.Wait()
	api.Wait()
}
