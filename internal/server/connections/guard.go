package connections

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var errNotAllowed = apierrors.NewBadRequest("address not allowed")

// forKubelets refuses addresses that cannot be a kubelet's: unspecified and multicast addresses, link-local addresses
// such as those of the metadata services of clouds, and the API server's own. Otherwise every user who may write a
// node's status could make the server connect there with its client certificate.
func (c *Connections) forKubelets(at netip.AddrPort) error {
	ip := at.Addr().Unmap()
	if !ip.IsValid() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == broadcast {
		return errNotAllowed
	}
	if c.o.Own != nil && c.o.Own(netip.AddrPortFrom(ip, at.Port())) {
		return errNotAllowed
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// forPods refuses the same addresses, and loopback addresses.
func (c *Connections) forPods(at netip.AddrPort) error {
	if at.Addr().Unmap().IsLoopback() {
		return errNotAllowed
	}
	return c.forKubelets(at)
}

// dialer opens connections; it has the signature that net/http uses.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// guarded opens connections only to allowed addresses. It checks the address of the connection itself, so that a name
// cannot resolve to another one in between.
func (c *Connections) guarded(allowed func(netip.AddrPort) error, timeout time.Duration) dialer {
	if c.o.Dial == nil {
		d := &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return allowed(at)
		}}
		return d.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if at, err := netip.ParseAddrPort(address); err == nil {
			if err := allowed(at); err != nil {
				return nil, err
			}
		}
		return c.o.Dial(ctx, network, address)
	}
}

// refusedDial returns the refusal of an address, if that is why a connection failed.
func refusedDial(err error) (error, bool) {
	var refused *apierrors.StatusError
	return refused, errors.As(err, &refused)
}
