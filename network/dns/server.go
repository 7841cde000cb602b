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
	"time"

	wire "github.com/miekg/dns"

	"github.com/millrace/millrace/loop"
)

// Options configure a Server. Clients and Listen must be set.
type Options struct {
	Clients *loop.Clients
	// Listen are addresses such as 127.0.0.1:53, each for UDP and TCP. Port 0 takes a free one.
	Listen []string
	// Domain is the cluster's. Default cluster.local.
	Domain string
	// TTL is how long clients may keep an answer about the cluster. Default 5 s.
	TTL time.Duration
	// Upstreams are asked for all names that are not the cluster's, as host:port. Nil: those of ResolvConf; empty: nobody is.
	Upstreams []string
	// ResolvConf names the machine's DNS servers; it is read again from time to time. Default /etc/resolv.conf.
	ResolvConf string
	// Stubs are the servers for some domains. Domains are in lower case and end with a dot.
	Stubs map[string][]string
	// CacheEntries is how many answers of other servers are kept. Default 10,000.
	CacheEntries int
	// Pending is how many questions may wait for other servers. Others are answered with SERVFAIL. Default 1000.
	Pending int
	Logger  *slog.Logger // nil: discard
}

// Server answers over UDP and TCP.
type Server struct {
	options Options
	log     *slog.Logger
	zone    *zone
	forward *forwarder
	probes  probes
	pending chan struct{} // one entry for each question that waits
	waiting sync.WaitGroup

	bound chan struct{} // closed when the addresses are known
	udp   []*net.UDPConn
	tcp   []net.Listener
}

// New makes a server. It listens once it runs.
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
		zone:    &zone{view: newView(o.Clients), domain: o.Domain, ttl: uint32(o.TTL / time.Second)},
		forward: &forwarder{cache: newCache(o.CacheEntries, time.Now), now: time.Now, log: o.Logger},
		pending: make(chan struct{}, o.Pending), bound: make(chan struct{}),
	}
	s.forward.routes.Store(&[]route{})
	return s, nil
}

// Run serves until the context ends. The clients' informers must run beside it.
func (s *Server) Run(ctx context.Context) error {
	if err := s.listen(ctx); err != nil {
		return err
	}
	close(s.bound)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	all.Go(func() { s.reviewing(ctx) })
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

// Addresses are where the server listens, once it does.
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

// listen opens all addresses, or none.
func (s *Server) listen(ctx context.Context) error {
	for _, address := range s.options.Listen {
		if err := s.open(ctx, address); err != nil {
			s.close()
			return fmt.Errorf("listen for DNS on %s: %w", address, err)
		}
	}
	return nil
}

// open opens one address for both protocols. With port 0, TCP gets the port that UDP was given.
func (s *Server) open(ctx context.Context, address string) error {
	var config net.ListenConfig
	packets, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return err
	}
	conn := packets.(*net.UDPConn)
	s.udp = append(s.udp, conn)
	if err := tellDestination(conn); err != nil {
		return err
	}
	_ = conn.SetReadBuffer(socketBuffer) // as much as the system allows
	l, err := config.Listen(ctx, "tcp", conn.LocalAddr().String())
	if err != nil {
		return err
	}
	s.tcp = append(s.tcp, l)
	return nil
}

func (s *Server) close() {
	for _, conn := range s.udp {
		conn.Close()
	}
	for _, l := range s.tcp {
		l.Close()
	}
}
