//go:build linux

package services

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/informer"
)

// health is what a service's health-check node port returns: how many endpoints are on this node.
type health struct {
	port  uint16
	local int
}

func localEndpoints(all []*slice, n *node) int {
	here := map[netip.Addr]bool{}
	for _, s := range all {
		for _, e := range s.endpoints {
			if e.ready && e.node == n.name {
				here[e.address] = true
			}
		}
	}
	return len(here)
}

// healthServer listens on the health-check node ports. A value with a logger and proxyHealthy is ready to use.
type healthServer struct {
	log          *slog.Logger
	proxyHealthy func() bool
	servers      map[informer.Key]*portServer
	running      sync.WaitGroup
}

// portServer is the server of one port.
type portServer struct {
	port  uint16
	local atomic.Int64
	http  *http.Server
}

// set sets what the port of a service returns. A port that cannot be opened is tried again at the service's next
// change.
func (h *healthServer) set(key informer.Key, now health) {
	s := h.servers[key]
	if s != nil && s.port != now.port {
		s.http.Close()
		delete(h.servers, key)
		s = nil
	}
	if s == nil && now.port != 0 {
		s = h.start(key, now.port)
	}
	if s != nil {
		s.local.Store(int64(now.local))
	}
}

func (h *healthServer) start(key informer.Key, port uint16) *portServer {
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
	if err != nil {
		h.log.Error("a health-check node port cannot be opened", "service", key.String(), "port", port, "err", err)
		return nil
	}
	s := &portServer{port: port}
	s.http = &http.Server{Handler: s.handler(key, h.proxyHealthy), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return context.Background() }}
	h.running.Go(func() { _ = s.http.Serve(l) })
	if h.servers == nil {
		h.servers = map[informer.Key]*portServer{}
	}
	h.servers[key] = s
	return s
}

func (s *portServer) handler(key informer.Key, proxyHealthy func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		local, healthy := s.local.Load(), proxyHealthy()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(local, 10))
		if local == 0 || !healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"service":        map[string]string{"namespace": key.Namespace, "name": key.Name},
			"localEndpoints": local, "serviceProxyHealthy": healthy,
		})
	})
}

func (h *healthServer) close() {
	for _, s := range h.servers {
		s.http.Close()
	}
	h.running.Wait()
}
