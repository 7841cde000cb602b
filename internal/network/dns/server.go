package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	wire "github.com/miekg/dns"

	"github.com/millrace/millrace/loop"
)

// Options configure a Server. Clients and Listen must be set.
type Options struct {
	Clients *loop.Clients
	// Listen are addresses such as 127.0.0.1:53, each for UDP and TCP. With port 0 the system chooses a port.
	Listen []string
	// Domain is the cluster's domain. Default cluster.local.
	Domain string
	// TTL is the TTL of answers about the cluster. Default 5 s.
	TTL time.Duration
	// Upstreams are asked for all names outside the cluster, as host:port. Nil: the servers in ResolvConf; empty: none,
	// such names are not answered.
	Upstreams []string
	// ResolvConf is the file that names the machine's DNS servers; it is read again at intervals. Default
	// /etc/resolv.conf.
	ResolvConf string
	// Stubs are the servers for single domains. Domains are in lower case and end with a dot.
	Stubs map[string][]string
	// CacheEntries is how many answers of upstream servers are cached. Default 10,000.
	CacheEntries int
	// Pending is how many requests may wait for upstream servers. Further requests are answered with SERVFAIL. Default
	// 1000.
	Pending int
	Logger  *slog.Logger // nil: discard
}

// Server answers requests over UDP and TCP.
type Server struct {
	options Options
	log     *slog.Logger
	zone    *zone
	forward *forwarder
	probes  probes
	pending chan struct{} // one entry for each request that waits for upstream servers
	waiting sync.WaitGroup

	bound chan struct{} // closed when the server listens on all addresses
	udp   []*net.UDPConn
	tcp   []net.Listener
}

// New makes a server. It listens when it runs.
func New(o Options) (*Server, error) {
	if o.Clients == nil || len(o.Listen) == 0 {
		return nil, errors.New("a DNS server needs clients and an address to listen on")
	}
	o.Domain = strings.ToLower(wire.Fqdn(cmp.Or(o.Domain, "cluster.local")))
	if _, ok := wire.IsDomainName(o.Domain); !ok {
		return nil, fmt.Errorf("%q is not a domain", o.Domain)
	}
	o.TTL = cmp.Or(o.TTL, 5*time.Second)
	o.ResolvConf = cmp.Or(o.ResolvConf, resolvConf)
	o.CacheEntries, o.Pending = cmp.Or(o.CacheEntries, 10000), cmp.Or(o.Pending, 1000)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		options: o, log: o.Logger,
		zone:    newZone(newView(o.Clients), o.Domain),
		forward: &forwarder{cache: newCache(o.CacheEntries, time.Now), now: time.Now, log: o.Logger},
		pending: make(chan struct{}, o.Pending), bound: make(chan struct{}),
	}
	s.forward.routes.Store(&[]route{})
	return s, nil
}

// Run serves until the context ends. The clients' informers must run at the same time.
func (s *Server) Run(ctx context.Context) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	close(s.bound)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() { s.updateRoutes(ctx) })
	for _, conn := range s.udp {
		s.serveDatagrams(ctx, &all, conn)
	}
	for _, l := range s.tcp {
		all.Go(func() { s.serveStreams(ctx, cancel, l) })
	}
	<-ctx.Done()
	s.close()
	all.Wait()
	s.waiting.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// ttl returns the TTL of answers about the cluster, in seconds.
func (s *Server) ttl() uint32 { return uint32(s.options.TTL / time.Second) }

// Addresses returns the addresses on which the server listens, as soon as it does.
func (s *Server) Addresses(ctx context.Context) ([]string, error) {
	select {
	case <-s.bound:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var all []string
	for _, conn := range s.udp {
		all = append(all, conn.LocalAddr().String())
	}
	return all, nil
}

// Synced waits until names of the cluster are answered.
func (s *Server) Synced(ctx context.Context) error {
	caches := []loop.Cache{s.zone.services, s.zone.namespaces}
	for _, c := range s.zone.slices {
		caches = append(caches, c)
	}
	for _, c := range caches {
		if err := c.Synced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// listen listens on all addresses, or on none.
func (s *Server) listen(ctx context.Context) error {
	for _, address := range s.options.Listen {
		if err := s.open(ctx, address); err != nil {
			s.close()
			return fmt.Errorf("listen for DNS on %s: %w", address, err)
		}
	}
	return nil
}

// open listens on one address for both protocols.
func (s *Server) open(ctx context.Context, address string) error {
	conn, l, err := listen(ctx, address)
	if err != nil {
		return err
	}
	s.udp, s.tcp = append(s.udp, conn), append(s.tcp, l)
	if err := enablePacketInfo(conn); err != nil {
		return err
	}
	_ = conn.SetReadBuffer(socketBuffer) // the system may allow less
	return nil
}

// listen listens for both protocols on the same port. A port that the system gave for one of them may be in use for the
// other: then it is asked again.
func listen(ctx context.Context, address string) (*net.UDPConn, net.Listener, error) {
	const tries = 10
	var config net.ListenConfig
	for try := 1; ; try++ {
		l, err := config.Listen(ctx, "tcp", address)
		if err != nil {
			return nil, nil, err
		}
		packets, err := config.ListenPacket(ctx, "udp", l.Addr().String())
		if err == nil {
			return packets.(*net.UDPConn), l, nil
		}
		l.Close()
		if _, port, _ := net.SplitHostPort(address); port != "0" || try == tries || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, nil, err
		}
	}
}

func (s *Server) close() {
	for _, conn := range s.udp {
		conn.Close()
	}
	for _, l := range s.tcp {
		l.Close()
	}
}
