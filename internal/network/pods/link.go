//go:build linux

package pods

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// hostLink is the name of the node's end of a pod's link. It is derived from the container, so that DEL finds it.
func (c *call) hostLink() string { return linkOf(c.owner()) }

func linkOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return "mr" + hex.EncodeToString(sum[:6])
}

// connect makes the link of a pod, and adds addresses and routes.
func (c *call) connect(taken []netip.Addr) (*result, error) {
	target, err := netns.GetFromPath(c.namespace)
	if err != nil {
		return nil, fmt.Errorf("open the pod's network namespace: %w", err)
	}
	defer target.Close()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: c.hostLink(), MTU: c.MTU}, PeerName: c.link, PeerNamespace: netlink.NsFd(target)}
	if err := netlink.LinkAdd(veth); err != nil {
		return nil, fmt.Errorf("make the link %s: %w", veth.Name, err)
	}
	host, err := netlink.LinkByName(veth.Name)
	if err != nil {
		return nil, err
	}
	pod, err := netlink.NewHandleAt(target)
	if err != nil {
		return nil, err
	}
	defer pod.Close()
	inside, err := pod.LinkByName(c.link)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(netlink.LinkSetUp(host), pod.LinkSetUp(inside), setUpLoopback(pod)); err != nil {
		return nil, err
	}
	out := &result{CNIVersion: c.CNIVersion, DNS: []byte("{}"), Interfaces: []resultLink{
		{Name: veth.Name, MAC: host.Attrs().HardwareAddr.String()},
		{Name: c.link, MAC: inside.Attrs().HardwareAddr.String(), Sandbox: c.namespace},
	}}
	for i, a := range taken {
		if err := addAddress(host, inside, pod, a, gateway(c.Ranges[i])); err != nil {
			return nil, err
		}
		out.add(a, gateway(c.Ranges[i]))
	}
	return out, nil
}

// addAddress adds an address: only the pod has it, and it reaches all others through the node's end of the link.
func addAddress(host, inside netlink.Link, pod *netlink.Handle, address, gateway netip.Addr) error {
	everything := netip.PrefixFrom(unspecified(address), 0)
	steps := []func() error{
		func() error { return ignore(netlink.AddrAdd(host, hostAddress(gateway)), unix.EEXIST) },
		func() error {
			return netlink.RouteReplace(&netlink.Route{LinkIndex: host.Attrs().Index, Dst: network(single(address)), Scope: unix.RT_SCOPE_LINK})
		},
		func() error { return pod.AddrAdd(inside, hostAddress(address)) },
		func() error {
			return pod.RouteAdd(&netlink.Route{LinkIndex: inside.Attrs().Index, Dst: network(single(gateway)), Scope: unix.RT_SCOPE_LINK})
		},
		func() error {
			return pod.RouteAdd(&netlink.Route{LinkIndex: inside.Attrs().Index, Dst: network(everything), Gw: gateway.AsSlice()})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("give the pod the address %s: %w", address, err)
		}
	}
	return nil
}

func (r *result) add(a, gateway netip.Addr) {
	r.IPs = append(r.IPs, resultIP{Version: r.family(a), Interface: 1, Address: single(a), Gateway: gateway})
	r.Routes = append(r.Routes, resultRoute{To: netip.PrefixFrom(unspecified(a), 0), Gateway: gateway})
}

// disconnect removes a pod's link, both ends.
func (c *call) disconnect() error {
	link, err := netlink.LinkByName(c.hostLink())
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	return ignore(netlink.LinkDel(link), unix.ENODEV)
}

// verify implements CHECK: the pod still owns its addresses, and the link has them.
func (c *call) verify() error {
	all, err := c.addresses.ownedBy(c.owner())
	if err != nil {
		return err
	}
	if len(all) != len(c.Ranges) {
		return fmt.Errorf("the pod has %d addresses where %d were given", len(all), len(c.Ranges))
	}
	if _, err := netlink.LinkByName(c.hostLink()); err != nil {
		return fmt.Errorf("the node's end of the pod's link: %w", err)
	}
	return inNamespace(c.namespace, func() error {
		link, err := netlink.LinkByName(c.link)
		if err != nil {
			return fmt.Errorf("the pod's end of its link: %w", err)
		}
		have, err := addressesOf(link)
		if err != nil {
			return err
		}
		for _, a := range all {
			if !slices.ContainsFunc(have, func(h netlink.Addr) bool { return h.IP.Equal(a.AsSlice()) }) {
				return fmt.Errorf("%s of the pod lacks the address %s", c.link, a)
			}
		}
		return nil
	})
}

// inNamespace runs f on a new thread in a network namespace.
func inNamespace(path string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		target, err := netns.GetFromPath(path)
		if err == nil {
			defer target.Close()
			err = netns.Set(target)
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// hostAddress returns an address whose prefix contains only itself.
func hostAddress(a netip.Addr) *netlink.Addr {
	out := &netlink.Addr{IPNet: network(single(a))}
	if a.Is6() {
		out.Flags = unix.IFA_F_NODAD
	}
	return out
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func unspecified(like netip.Addr) netip.Addr {
	if like.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

func network(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// ignore returns nil for an error that means that there is nothing to do.
func ignore(err error, harmless error) error {
	if errors.Is(err, harmless) || errors.Is(err, fs.ErrNotExist) && os.IsNotExist(harmless) {
		return nil
	}
	return err
}

// family is the name of an address's family in results of versions before 1.0.0.
func (r *result) family(a netip.Addr) string {
	switch {
	case !strings.HasPrefix(r.CNIVersion, "0."):
		return ""
	case a.Is6():
		return "6"
	}
	return "4"
}
