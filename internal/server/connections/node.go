package connections

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// kubeletPort is the kubelet's port if the node's status does not name one.
const kubeletPort = 10250

// kubeletOf returns the address of a node's kubelet.
func (c *Connections) kubeletOf(ctx context.Context, node string) (host, port string, err error) {
	n, err := find[*corev1.Node](ctx, c, "nodes", "", node)
	if err != nil {
		return "", "", err
	}
	if host, err = c.addressOf(n); err != nil {
		return "", "", err
	}
	number := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if number <= 0 {
		number = kubeletPort
	}
	return host, strconv.Itoa(number), nil
}

func (c *Connections) addressOf(n *corev1.Node) (string, error) {
	for _, wanted := range c.o.AddressTypes {
		for _, a := range n.Status.Addresses {
			if a.Type == wanted && a.Address != "" {
				return a.Address, nil
			}
		}
	}
	return "", failed("no preferred addresses found; known addresses: %v", n.Status.Addresses)
}

// allowed refuses addresses that cannot be a pod's.
func allowed(address string) error {
	ip := net.ParseIP(address)
	if ip == nil || ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() ||
		ip.IsInterfaceLocalMulticast() || ip.Equal(net.IPv4bcast) {
		return apierrors.NewBadRequest("address not allowed")
	}
	return nil
}

// allowedHost refuses a name if any of its addresses is refused.
func allowedHost(ctx context.Context, host string) error {
	if net.ParseIP(host) != nil {
		return allowed(host)
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(addresses) == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("no addresses for hostname %q", host))
	}
	for _, a := range addresses {
		if err := allowed(a.IP.String()); err != nil {
			return err
		}
	}
	return nil
}
