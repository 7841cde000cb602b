package millrace

import (
	"fmt"
	"net"
	"net/netip"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/millrace/millrace/internal/server/endpoints"
	"github.com/millrace/millrace/internal/server/store"
)

// keysAddress is where clients that check tokens themselves find the server's keys: at the address that pods can reach, if there is one.
func (c *Cluster) keysAddress() string {
	if c.advertised.IsValid() {
		return c.externalAddress(c.advertised.String())
	}
	return c.externalAddress(c.address)
}

// externalAddress returns the address in documents for clients from outside: the external host name with the port of an address, or else the
// address itself.
func (c *Cluster) externalAddress(address string) string {
	name := c.options.Serving.ExternalHostname
	_, port, err := net.SplitHostPort(address)
	if name == "" || err != nil {
		return address
	}
	return net.JoinHostPort(name, port)
}

// advertise returns the address at which pods reach this server. It is not valid if there is none.
func (c *Cluster) advertise() (netip.AddrPort, error) {
	if c.options.Advertise != "" {
		address, err := netip.ParseAddr(c.options.Advertise)
		if err != nil || address.IsLoopback() || address.IsUnspecified() {
			return netip.AddrPort{}, fmt.Errorf("%q is not an address that pods can reach: give one of this machine that is not a loopback address", c.options.Advertise)
		}
		return netip.AddrPortFrom(address, uint16(c.port())), nil
	}
	listening, err := netip.ParseAddrPort(c.address)
	if err != nil {
		return netip.AddrPort{}, nil // there is no port
	}
	if c.options.Runtime != "" && listening.Addr().IsLoopback() {
		c.options.Logger.Warn("pods cannot reach the API, because it listens on a loopback address alone", "address", c.address)
	}
	ip, err := utilnet.ResolveBindAddress(net.IP(listening.Addr().Unmap().AsSlice()))
	if err != nil {
		c.options.Logger.Info("the API has no endpoints: this machine has no address but loopback's", "error", err)
		return netip.AddrPort{}, nil
	}
	address, ok := netip.AddrFromSlice(ip)
	if !ok || address.Unmap().IsLoopback() {
		return netip.AddrPort{}, nil
	}
	return netip.AddrPortFrom(address.Unmap(), listening.Port()), nil
}

// keepEndpoints maintains the endpoints of the Service "kubernetes".
func (c *Cluster) keepEndpoints(s store.Store) error {
	if !c.advertised.IsValid() {
		return nil
	}
	service, err := firstAddress(c.options.ServiceRange)
	if err != nil {
		return err
	}
	r, err := endpoints.New(endpoints.Options{Address: c.advertised, ServiceIP: service, Store: s, Config: c.InProcess(), Logger: c.options.Logger})
	if err != nil {
		return err
	}
	c.run("endpoints of the API", r.Run)
	return nil
}
