//go:build linux

package e2e

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// portOf is an address on which nobody listens, with a port that stays free for who does: connections of others, which
// take ports as they come, pass it over until the test ends.
func portOf(t *testing.T, host string) string {
	t.Helper()
	at := netip.MustParseAddr(host).As4()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	// Who listens sets this as well, and may have the port beside a socket that does not listen.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: at}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.AddrFrom4(at), uint16(bound.(*unix.SockaddrInet4).Port)).String()
}

func listenOn(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAPortStaysFreeForWhoListens(t *testing.T) {
	address := portOf(t, "127.0.0.1")
	for range 2 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Fatal("somebody answers where nobody listens")
		}
		l := listenOn(t, address)
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
}
