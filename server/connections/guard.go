package connections

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var errNotAllowed = apierrors.NewBadRequest("address not allowed")

// forKubelets refuses addresses that can be no kubelet's: those of nobody in particular, those that are only good on one
// link, as the metadata services of clouds are, and the API server's own. Everybody who may write a node's status could
// have the server call there, with its certificate.
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

// forPods refuses these, and loopback addresses.
func (c *Connections) forPods(at netip.AddrPort) error {
	if at.Addr().Unmap().IsLoopback() {
		return errNotAllowed
	}
	return c.forKubelets(at)
}

// dialer opens connections, as net/http wants them opened.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// guarded opens connections to allowed addresses alone. What is looked at is the address that the connection goes to,
// whatever a name was resolved to before.
func (c *Connections) guarded(allowed func(netip.AddrPort) error) dialer {
	if c.o.Dial == nil {
		d := &net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
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

// refusedDial is the refusal to connect to an address, if that is why a connection failed.
func refusedDial(err error) (error, bool) {
	var refused *apierrors.StatusError
	return refused, errors.As(err, &refused)
}
