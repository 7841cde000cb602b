// Package standin stands in for etcd when a test suite starts one beside an API server that keeps its objects in
// memory: it answers health checks.
package standin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/cmd/millrace/internal/flags"
)

const (
	// standInMark is a header that identifies a stand-in for etcd.
	standInMark = "Millrace-Stand-In"
	// claimPath is the path at which an API server claims a stand-in. The request stays open for as long as the API
	// server runs.
	claimPath = "/millrace/claim"
)

// standIn replaces etcd for an API server that keeps its data in memory. It answers health checks, and ensures that
// only one API server uses it, because two would not share their data.
type standIn struct {
	claimed atomic.Bool
}

// ServeHTTP implements http.Handler.
func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(standInMark, "true")
	switch r.URL.Path {
	case "/health", "/livez", "/readyz":
		io.WriteString(w, `{"health":"true","reason":""}`)
	case "/version":
		io.WriteString(w, `{"etcdserver":"3.7.0","etcdcluster":"3.7.0"}`)
	case claimPath:
		s.claim(w, r)
	default:
		http.Error(w, "this etcd is a stand-in that keeps no data: the API server beside it keeps its objects in memory", http.StatusNotImplemented)
	}
}

func (s *standIn) claim(w http.ResponseWriter, r *http.Request) {
	if !s.claimed.CompareAndSwap(false, true) {
		http.Error(w, "another API server keeps the data", http.StatusConflict)
		return
	}
	defer s.claimed.Store(false)
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// Claim checks whether an etcd is a stand-in and, if so, claims it until release is called.
func Claim(ctx context.Context, servers []string) (isOne bool, release func(), err error) {
	if len(servers) != 1 || !strings.HasPrefix(servers[0], "http://") {
		return false, nil, nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(servers[0], "/")+claimPath, nil)
	if err != nil {
		cancel()
		return false, nil, err
	}
	transport := &http.Transport{}
	res, err := transport.RoundTrip(req)
	if err != nil {
		cancel()
		return false, nil, nil // an etcd that does not answer may still be starting
	}
	release = func() {
		cancel()
		res.Body.Close()
		transport.CloseIdleConnections()
	}
	if res.Header.Get(standInMark) == "" {
		release()
		return false, nil, nil
	}
	if res.StatusCode != http.StatusOK {
		release()
		return true, nil, fmt.Errorf("the etcd at %s is a stand-in that keeps no data, and another API server uses it: API servers that share their data need a real etcd", servers[0])
	}
	return true, release, nil
}

func Command() *cobra.Command {
	var listen []string
	c := &cobra.Command{
		Use:   "etcd",
		Short: "Stand in for etcd, beside an API server that keeps its objects in memory",
		Long: "Stand in for etcd, beside an API server that keeps its objects in memory. It answers health checks only\n" +
			"and stores no data.",
		Args: cobra.NoArgs,
		RunE: flags.UntilSignal(func(ctx context.Context, _ *cobra.Command) error { return standInAt(ctx, listen) }),
	}
	fl := c.Flags()
	fl.StringSliceVar(&listen, "listen-client-urls", []string{"http://localhost:2379"}, "URLs to listen at, separated by commas")
	means := "accepted for compatibility; has no effect"
	for _, name := range []string{"name", "data-dir", "wal-dir", "advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls", "initial-cluster",
		"initial-cluster-state", "initial-cluster-token", "listen-metrics-urls", "log-level", "logger", "quota-backend-bytes", "snapshot-count",
		"max-request-bytes", "max-txn-ops", "heartbeat-interval", "election-timeout", "auto-compaction-mode", "auto-compaction-retention"} {
		fl.String(name, "", means)
	}
	fl.Bool("unsafe-no-fsync", false, means)
	return c
}

// standInAt serves at URLs until ctx ends.
func standInAt(ctx context.Context, urls []string) error {
	server := &http.Server{Handler: &standIn{}}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer server.Close()
	failed := make(chan error, len(urls))
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" {
			return fmt.Errorf("--listen-client-urls: %q is not a URL such as http://127.0.0.1:2379", text)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", u.Host)
		if err != nil {
			return fmt.Errorf("cannot listen on %s: %w", u.Host, errors.Unwrap(err))
		}
		serving.Go(func() { failed <- server.Serve(l) })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}
