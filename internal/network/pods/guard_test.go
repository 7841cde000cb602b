//go:build linux

package pods

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/millrace/millrace/internal/network/internal/nettest"
	"github.com/millrace/millrace/internal/network/nft"
)

// sends sends a text from an address of a pod, which need not be the pod's own.
func sends(t *testing.T, pod *nettest.Namespace, from netip.Addr, to, text string) {
	t.Helper()
	pod.Do(func() error {
		target, err := net.ResolveUDPAddr("udp", to)
		if err != nil {
			return err
		}
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), target)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(text))
		return err
	})
}

// hears makes a pod listen, and returns a function that reads the next text.
func hears(t *testing.T, pod *nettest.Namespace) (next func() string) {
	t.Helper()
	var c *net.UDPConn
	pod.Do(func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{Port: 9000})
		return err
	})
	t.Cleanup(func() { c.Close() })
	return func() string {
		text := make([]byte, 100)
		n, err := c.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text[:n])
	}
}

func at9000(a netip.Addr) string { return netip.AddrPortFrom(a, 9000).String() }

// alias gives a pod another address, as root in the pod can.
func alias(pod *nettest.Namespace, a netip.Addr) {
	pod.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, hostAddress(a))
	})
}

func oneMachine(t *testing.T) *machine {
	c := &cluster{t, fake.NewClientset()}
	m := c.machine("a", []string{"10.0.0.1", "fd00::1"}, "10.244.1.0/24", "fd01:1::/64")
	out := nettest.New(t)
	nettest.Join(m.net, "eth0", []string{"10.0.0.1/24", "fd00::1/64"}, out, "eth0", []string{"10.0.0.9/24", "fd00::9/64"})
	m.net.Route("0.0.0.0/0", "10.0.0.9")
	m.net.Route("::/0", "fd00::9")
	c.run(m)
	return m
}

func TestAPodSendsFromItsOwnAddressesOnly(t *testing.T) {
	m := oneMachine(t)
	liar, its := m.pod("liar")
	victim, victims := m.pod("victim")
	_, others := m.pod("other")
	next := hears(t, victim)
	for i, foreign := range []netip.Addr{netip.MustParseAddr("10.244.1.77"), netip.MustParseAddr("fd01:1::77")} {
		alias(liar, foreign)
		alias(liar, others[i])
		sends(t, liar, foreign, at9000(victims[i]), "from nobody")
		sends(t, liar, others[i], at9000(victims[i]), "from another pod")
		sends(t, liar, its[i], at9000(victims[i]), "from itself")
		if got := next(); got != "from itself" {
			t.Errorf("the pod hears %q", got)
		}
	}
}

func TestWhatPodsMaySendIsCorrectedWhenSomebodyRemovesIt(t *testing.T) {
	m := oneMachine(t)
	m.pod("p")
	m.net.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		var b nft.Batch
		own := nft.Table{Family: nft.IPv4, Name: guardTable}
		b.DeleteTable(own)
		if err := conn.Commit(&b); err != nil {
			return err
		}
		for { // until the agent's next interval; the test's own limit of time ends it
			if _, exists, err := conn.Comment(own); err != nil || exists {
				return err
			}
		}
	})
}

func TestPacketsOfANewPodWaitForThePolicies(t *testing.T) {
	m := oneMachine(t)
	old, olds := m.pod("old")
	conf := m.configuration()
	conf.Hold = true
	fresh := nettest.New(t)
	r, err := m.call("ADD", "fresh", fresh, conf) // nobody releases its addresses, so it waits for them in vain
	if err != nil {
		t.Fatal(err)
	}
	given := Given{Directory: m.directory + "/state"}
	known := map[netip.Addr]bool{}
	for _, ip := range r.IPs {
		known[ip.Address.Addr()] = true
	}
	owners, err := given.Owners()
	if err != nil {
		t.Fatal(err)
	}
	for a := range known {
		if owners[a] != (Owner{"ns", "fresh", "uid-fresh"}) {
			t.Errorf("%s is given to %+v", a, owners[a])
		}
	}
	fromOld, fromFresh := hears(t, fresh), hears(t, old)
	say := func(text string) {
		for i, ip := range r.IPs {
			sends(t, fresh, ip.Address.Addr(), at9000(olds[i]), text)
			sends(t, old, olds[i], at9000(ip.Address.Addr()), text)
		}
	}
	say("early")
	m.net.Do(func() error { return given.Release(known) })
	say("late")
	for range r.IPs {
		if a, b := fromOld(), fromFresh(); a != "late" || b != "late" {
			t.Errorf("the new pod hears %q, and is heard with %q", a, b)
		}
	}
}

func TestAPodThatThePoliciesKnowStartsAtOnce(t *testing.T) {
	m := oneMachine(t)
	conf := m.configuration()
	conf.Hold = true
	given := Given{Directory: m.directory + "/state"}
	m.net.Go(func() error {
		return given.Watch(t.Context(), func() {
			owners, err := given.Owners()
			known := map[netip.Addr]bool{}
			for a := range owners {
				known[a] = true
			}
			if err := errors.Join(err, m.net.Try(func() error { return given.Release(known) })); err != nil {
				t.Error(err)
			}
		})
	})
	r, err := m.call("ADD", "fresh", nettest.New(t), conf)
	if err != nil {
		t.Fatal(err)
	}
	m.net.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		held, err := heldIn(conn, nft.Table{Family: nft.IPv4, Name: guardTable})
		if slices.Contains(held, r.IPs[0].Address.Addr()) {
			t.Error("the pod has started, and its packets still wait")
		}
		return err
	})
}

func TestConnectionsOfAnAddressEndWithItsPod(t *testing.T) {
	m := oneMachine(t)
	a, as := m.pod("a")
	b, bs := m.pod("b")
	next := hears(t, b)
	for i := range as {
		sends(t, a, as[i], at9000(bs[i]), "hello")
		next()
	}
	flows := func() (n int) {
		m.net.Do(func() error {
			for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
				all, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
				if err != nil {
					return err
				}
				for _, f := range all {
					if (ofAddresses{bs[0]: true, bs[1]: true}).MatchConntrackFlow(f) {
						n++
					}
				}
			}
			return nil
		})
		return n
	}
	if n := flows(); n != 2 {
		t.Fatalf("%d connections are tracked", n)
	}
	if _, err := m.call("DEL", "b", b, m.configuration()); err != nil {
		t.Fatal(err)
	}
	if n := flows(); n != 0 {
		t.Errorf("%d connections of a pod that is gone are left", n)
	}
}
