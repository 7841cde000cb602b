//go:build linux

package pods

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// LoopbackName is the name of the plugin that sets up a pod's loopback device. containerd calls it before any other
// plugin and starts no pod without it. No configuration file names it.
const LoopbackName = "loopback"

// loopback handles a call of the loopback plugin. It stores nothing, so DEL has nothing to undo.
func (c *call) loopback(command string) (any, error) {
	switch command {
	case "DEL", "STATUS", "GC":
		return nil, nil
	case "ADD", "CHECK":
	default:
		return nil, failure{codeEnvironment, fmt.Errorf("CNI_COMMAND %q is not known", command)}
	}
	target, err := netns.GetFromPath(c.namespace)
	if err != nil {
		return nil, failure{codeEnvironment, fmt.Errorf("open the pod's network namespace: %w", err)}
	}
	defer target.Close()
	pod, err := netlink.NewHandleAt(target)
	if err != nil {
		return nil, err
	}
	defer pod.Close()
	if command == "CHECK" {
		return nil, loopbackIsUp(pod)
	}
	if err := setUpLoopback(pod); err != nil {
		return nil, fmt.Errorf("set up the loopback device: %w", err)
	}
	out := &result{CNIVersion: c.CNIVersion, DNS: []byte("{}"), Interfaces: []resultLink{{Name: "lo", MAC: "00:00:00:00:00:00", Sandbox: c.namespace}}}
	out.IPs = append(out.IPs, resultIP{Version: out.family(netip.IPv4Unspecified()), Address: netip.MustParsePrefix("127.0.0.1/8")})
	return out, nil
}

func setUpLoopback(in *netlink.Handle) error {
	lo, err := in.LinkByName("lo")
	if err != nil {
		return err
	}
	return in.LinkSetUp(lo)
}

func loopbackIsUp(in *netlink.Handle) error {
	lo, err := in.LinkByName("lo")
	if err != nil {
		return err
	}
	if lo.Attrs().Flags&net.FlagUp == 0 {
		return errors.New("the loopback device is down")
	}
	return nil
}
