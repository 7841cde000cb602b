//go:build linux

// Package nettest makes network namespaces for a test, connected by links. What a test does in them does not affect the
// machine's network. They are removed when the test ends.
package nettest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace.
type Namespace struct {
	t      testing.TB
	handle netns.NsHandle
}

// New makes a namespace with loopback up and forwarding enabled. Without root the test is skipped.
func New(t testing.TB) *Namespace {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := &Namespace{t: t, handle: -1}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		if n.handle, err = netns.Get(); err != nil {
			return err
		}
		for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0); err != nil {
				return err
			}
		}
		// Duplicate address detection is off, so that addresses can be used at once.
		for _, name := range []string{"all", "default"} {
			_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0)
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.handle.Close() })
	return n
}

// onThread runs f on a new thread. The thread's namespace is changed and not restored, so the thread ends with f.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// Try runs f in the namespace. f stays on its goroutine, and must not start goroutines that open sockets.
func (n *Namespace) Try(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.handle); err != nil {
			return err
		}
		return f()
	})
}

// Do is Try for an f that must not fail: an error fails the test.
func (n *Namespace) Do(f func() error) {
	n.t.Helper()
	if err := n.Try(f); err != nil {
		n.t.Fatal(err)
	}
}

// Go runs f in the namespace, concurrently with the test. The end of the test waits for f. A panic or an error fails
// the test.
func (n *Namespace) Go(f func() error) {
	ended := make(chan error, 1)
	go func() { ended <- n.Try(f) }()
	n.t.Cleanup(func() {
		if err := <-ended; err != nil {
			n.t.Error(err)
		}
	})
}

// Handle returns the namespace's file descriptor.
func (n *Namespace) Handle() int { return int(n.handle) }

// Join links two namespaces. Each end has a name and addresses with prefix lengths.
func Join(a *Namespace, aName string, aAddresses []string, b *Namespace, bName string, bAddresses []string) {
	a.t.Helper()
	a.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: aName}, PeerName: bName, PeerNamespace: netlink.NsFd(b.handle)})
	})
	a.configure(aName, aAddresses)
	b.configure(bName, bAddresses)
}

func (n *Namespace) configure(name string, addresses []string) {
	n.t.Helper()
	n.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for _, text := range addresses {
			address, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			if address.IP.To4() == nil {
				address.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(link, address); err != nil {
				return fmt.Errorf("give %s the address %s: %w", name, text, err)
			}
		}
		return netlink.LinkSetUp(link)
	})
}

// Route adds a route to a range by way of an address. "default" is 0.0.0.0/0 or ::/0.
func (n *Namespace) Route(to, via string) {
	n.t.Helper()
	n.Do(func() error {
		prefix := netip.MustParsePrefix(to)
		_, network, err := net.ParseCIDR(prefix.Masked().String())
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: network, Gw: net.ParseIP(via)})
	})
}
