// Package address is the first part of a cluster: its port, and the addresses at which it is reached. The port comes
// first, because if it is in use, nothing else needs to be undone, and nothing on disk was touched.
package address

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/millrace/millrace/internal/assembly"
	"github.com/millrace/millrace/internal/assembly/identity"
	"github.com/millrace/millrace/internal/server/inprocess"
)

// None is the Listen address of a server without a port.
const None = "none"

// usualPort is in the Service "kubernetes" of a server without a port.
const usualPort = 6443

// Options are the addresses.
type Options struct {
	// Listen is the address of the port, or None.
	Listen string
	// Advertise is where pods and other servers reach this one, without a port; if empty, it is found out.
	Advertise string
	// ExternalHostname is the host in documents for clients from outside; if empty, they have the address.
	ExternalHostname string
	// Containers says that pods run in real containers, which cannot reach a loopback address.
	Containers bool
	Logger     *slog.Logger
}

// Address is where a cluster is reached. Inside, which reaches it without a connection, exists from New on, and
// everything else from Start on.
type Address struct {
	o Options
	// Inside is the way of requests from this process. It has no handler until the API is served.
	Inside *inprocess.Transport
	// Listener is the port; nil if there is none.
	Listener net.Listener
	// Listening is the listener's address, and Advertised where pods reach the server; that is invalid if they cannot.
	Listening  string
	Advertised netip.AddrPort
}

// New makes the way from inside. Nothing is opened before Start.
func New(o Options) *Address {
	return &Address{o: o, Inside: inprocess.New(nil, identity.AsAdministrator)}
}

// Start opens the port.
func (a *Address) Start(ctx context.Context, l *assembly.List) (err error) {
	if !a.Alone() {
		if a.Listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", a.o.Listen); err != nil {
			return fmt.Errorf("cannot listen on %s: %w", a.o.Listen, errors.Unwrap(err))
		}
		l.Opened("listener", a.close)
		a.Listening = a.Listener.Addr().String()
	}
	a.Advertised, err = a.advertise()
	return err
}

func (a *Address) close() error {
	if err := a.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Alone reports whether there is no port: only this process reaches the server.
func (a *Address) Alone() bool { return a.o.Listen == None }

// Config returns a client configuration for requests from this process.
func (a *Address) Config() *rest.Config {
	return &rest.Config{Host: "https://in.process", Transport: a.Inside, QPS: -1, WarningHandler: rest.NoWarnings{}}
}

// URL returns the URL of the API, or "" if there is no port. For a server that listens on all addresses it has the
// loopback address.
func (a *Address) URL() string {
	if a.Alone() {
		return ""
	}
	host, port, err := net.SplitHostPort(a.Listening)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return "https://" + a.Listening
	}
	return "https://127.0.0.1:" + port
}

// Port returns the port in the Service "kubernetes".
func (a *Address) Port() int {
	if at, err := netip.ParseAddrPort(a.Listening); err == nil {
		return int(at.Port())
	}
	return usualPort
}

// External returns the address in documents for clients from outside.
func (a *Address) External() string { return a.external(a.Listening) }

// Keys is where clients that check tokens themselves find the server's keys: at the address that pods can reach, if
// there is one.
func (a *Address) Keys() string {
	if a.Advertised.IsValid() {
		return a.external(a.Advertised.String())
	}
	return a.External()
}

// external returns the external host name with the port of an address, or else the address itself.
func (a *Address) external(address string) string {
	_, port, err := net.SplitHostPort(address)
	if a.o.ExternalHostname == "" || err != nil {
		return address
	}
	return net.JoinHostPort(a.o.ExternalHostname, port)
}

// Hosts returns the addresses that the serving certificate must have: the one of the port, unless it is all of this
// machine's, and the advertised one.
func (a *Address) Hosts() []string {
	var hosts []string
	if host, _, err := net.SplitHostPort(a.Listening); err == nil {
		if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
			hosts = append(hosts, host)
		}
	}
	if a.Advertised.IsValid() {
		hosts = append(hosts, a.Advertised.Addr().String())
	}
	return hosts
}

// Identity returns the unique name of this API server in the cluster.
func (a *Address) Identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = a.Listening
	}
	return fmt.Sprintf("apiserver-%x", sha256.Sum256([]byte(host+" "+a.Listening)))[:len("apiserver-")+26]
}

// advertise returns the address at which pods reach this server. It is not valid if there is none.
func (a *Address) advertise() (netip.AddrPort, error) {
	if a.o.Advertise != "" {
		address, err := netip.ParseAddr(a.o.Advertise)
		if err != nil || address.IsLoopback() || address.IsUnspecified() {
			return netip.AddrPort{}, fmt.Errorf("%q is not an address that pods can reach: give one of this machine that is not a loopback address", a.o.Advertise)
		}
		return netip.AddrPortFrom(address, uint16(a.Port())), nil
	}
	listening, err := netip.ParseAddrPort(a.Listening)
	if err != nil {
		return netip.AddrPort{}, nil // there is no port
	}
	if a.o.Containers && listening.Addr().IsLoopback() {
		a.o.Logger.Warn("pods cannot reach the API, because it listens on a loopback address alone", "address", a.Listening)
	}
	ip, err := utilnet.ResolveBindAddress(net.IP(listening.Addr().Unmap().AsSlice()))
	if err != nil {
		a.o.Logger.Info("the API has no endpoints: this machine has no address but loopback's", "error", err)
		return netip.AddrPort{}, nil
	}
	address, ok := netip.AddrFromSlice(ip)
	if !ok || address.Unmap().IsLoopback() {
		return netip.AddrPort{}, nil
	}
	return netip.AddrPortFrom(address.Unmap(), listening.Port()), nil
}

// Owns reports whether the server listens at an address: at its port, on its listen address or, if that is unspecified,
// on any address of this machine.
func (a *Address) Owns(at netip.AddrPort) bool {
	listening, err := netip.ParseAddrPort(a.Listening)
	if err != nil || at.Port() != listening.Port() {
		return false
	}
	if own := listening.Addr().Unmap(); !own.IsUnspecified() {
		return at.Addr() == own
	}
	if at.Addr().IsLoopback() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true // the addresses cannot be listed, so it may be ours
	}
	return slices.ContainsFunc(addresses, func(one net.Addr) bool {
		prefix, err := netip.ParsePrefix(one.String())
		return err == nil && prefix.Addr().Unmap() == at.Addr()
	})
}
