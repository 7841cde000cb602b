//go:build linux

package pods

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/internal/network/nft"
)

// portTable maps ports of the node to pods. The plugin writes its elements; calls are serialised by a lock.
const portTable = "millrace-host-ports"

// The maps: one by address of the node, protocol and port, and one for all addresses by protocol and port.
const (
	portsOfAddress = "ports-of-address"
	portsOfAll     = "ports"
)

// entry is an element of one of the maps of one family.
type entry struct {
	family  nft.Family
	set     string
	element nft.Element
}

// entries returns the elements for the port mappings of a pod.
func (c *call) entries(all []netip.Addr) ([]entry, error) {
	var out []entry
	for _, m := range c.Runtime.PortMappings {
		if m.HostPort == 0 {
			continue
		}
		protocol, ok := map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}[strings.ToLower(m.Protocol)]
		if !ok {
			return nil, fmt.Errorf("port %d: the protocol %q is not known", m.HostPort, m.Protocol)
		}
		host, err := netip.ParseAddr(m.HostIP)
		if m.HostIP != "" && err != nil {
			return nil, fmt.Errorf("port %d: %w", m.HostPort, err)
		}
		for _, a := range all {
			e := entry{family: familyOf(a), set: portsOfAll}
			key := []byte{protocol, 0, 0, 0, byte(m.HostPort >> 8), byte(m.HostPort), 0, 0}
			if host.IsValid() && !host.IsUnspecified() {
				if host.Is4() != a.Is4() {
					continue
				}
				e.set, key = portsOfAddress, append(host.AsSlice(), key...)
			}
			e.element = nft.Element{Key: string(key), Data: string(append(a.AsSlice(), byte(m.ContainerPort>>8), byte(m.ContainerPort), 0, 0))}
			out = append(out, e)
		}
	}
	return out, nil
}

// openPorts adds the elements for the pod's port mappings.
func (c *call) openPorts(all []netip.Addr) error {
	wanted, err := c.entries(all)
	if err != nil || len(wanted) == 0 {
		return err
	}
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, family := range []nft.Family{nft.IPv4, nft.IPv6} {
		_, exists, err := conn.Comment(nft.Table{Family: family, Name: portTable})
		if err != nil {
			return err
		}
		var b nft.Batch
		if !exists {
			buildPorts(&b, family)
		}
		for _, e := range wanted {
			if e.family == family {
				b.AddElements(nft.Table{Family: family, Name: portTable}, e.set, []nft.Element{e.element})
			}
		}
		switch err := conn.Commit(&b); {
		case errors.Is(err, unix.EEXIST):
			return fmt.Errorf("open the ports of the pod: another pod of this node has one of them: %w", err)
		case err != nil:
			return fmt.Errorf("open the ports of the pod: %w", err)
		}
	}
	return nil
}

// closePorts removes all elements that lead to one of these addresses. It does not use the mappings, because DEL may
// come without them.
func (c *call) closePorts(all []netip.Addr) error {
	if len(all) == 0 {
		return nil
	}
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, a := range all {
		t := nft.Table{Family: familyOf(a), Name: portTable}
		if _, exists, err := conn.Comment(t); err != nil || !exists {
			continue
		}
		var b nft.Batch
		for _, set := range []string{portsOfAddress, portsOfAll} {
			have, err := conn.Elements(t, set)
			if err != nil {
				return err
			}
			for _, e := range have {
				if strings.HasPrefix(e.Data, string(a.AsSlice())) {
					b.DeleteElements(t, set, []nft.Element{e})
				}
			}
		}
		if err := conn.Commit(&b); err != nil {
			return fmt.Errorf("close the ports of the pod: %w", err)
		}
	}
	return nil
}

func familyOf(a netip.Addr) nft.Family {
	if a.Is4() {
		return nft.IPv4
	}
	return nft.IPv6
}

// buildPorts writes the table, without elements.
func buildPorts(b *nft.Batch, family nft.Family) {
	t := nft.Table{Family: family, Name: portTable}
	address, offset, size, words := nft.Address4, uint32(16), uint32(4), nft.Register(1)
	if family == nft.IPv6 {
		address, offset, size, words = nft.Address6, 24, 16, 4
	}
	b.AddTable(t, "ports of the node that lead to pods")
	to := []nft.Type{address, nft.Port}
	b.AddSet(t, &nft.Set{Name: portsOfAddress, Key: []nft.Type{address, nft.Protocol, nft.Port}, Value: to})
	b.AddSet(t, &nft.Set{Name: portsOfAll, Key: []nft.Type{nft.Protocol, nft.Port}, Value: to})
	b.AddChain(t, nft.Chain{Name: "lead"})
	port := func(at nft.Register) []nft.Expression {
		return []nft.Expression{nft.Meta(unix.NFT_META_L4PROTO, at), nft.Transport(2, 2, at+1)}
	}
	result := nft.R0 + 8
	first := append([]nft.Expression{nft.Network(offset, size, nft.R0)}, port(nft.R0+words)...)
	b.AddRule(t, "lead", append(first, nft.Lookup(portsOfAddress, nft.R0, result), nft.Destination(family, result, result+words))...)
	b.AddRule(t, "lead", append(port(nft.R0), nft.Lookup(portsOfAll, nft.R0, result), nft.Destination(family, result, result+words))...)
	for name, hook := range map[string]uint32{"prerouting": unix.NF_INET_PRE_ROUTING, "output": unix.NF_INET_LOCAL_OUT} {
		b.AddChain(t, nft.Chain{Name: name, Type: "nat", Hook: hook, Priority: -100})
		b.AddRule(t, name, nft.Fib(unix.NFTA_FIB_F_DADDR, unix.NFT_FIB_RESULT_ADDRTYPE, nft.R0), nft.Equal(nft.R0, nft.Native(unix.RTN_LOCAL)), nft.Jump("lead"))
	}
}
