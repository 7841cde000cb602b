// Command compare lets kube-proxy (in its nftables mode) and this project's proxy write the rules for the same
// services, one after the other. It measures the time until all are written after the start, the time from the write of
// one changed endpoint to the changed rule, and the CPU time and memory of both. With --rate it also measures the time
// until a rule has changed while so many endpoints change a second, and then connections through a service. With
// --questions it measures names: this project's DNS server, and CoreDNS beside it.
//
//	compare --millrace PATH [--kube-proxy PATH] [--services 10000] [--endpoints 10] [--changes 20] [--runs 1]
//	compare --millrace PATH [--kube-proxy PATH] --rate 1000
//	compare --millrace PATH --questions 20000 [--coredns PATH] [--services 10000]
//
// It needs root. Everything runs in a new network namespace, with an API server of this project in memory: the
// machine's network is not changed, and nothing is left afterwards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/vishvananda/netlink"
)

// insideVariable is set in the environment of the process inside the namespace.
const insideVariable = "MILLRACE_COMPARE_INSIDE"

type options struct {
	millrace, kubeProxy, coreDNS                      string
	services, endpoints, changes, runs, perTurn, rate int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if os.Getenv(insideVariable) == "" {
		err = runInNamespace(ctx)
	} else {
		err = compare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// runInNamespace runs this program again in a new network namespace.
func runInNamespace(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, self, os.Args[1:]...)
	c.Stdout, c.Stderr, c.Env = os.Stdout, os.Stderr, append(os.Environ(), insideVariable+"=yes")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		return fmt.Errorf("in a network namespace of its own, which needs root: %w", err)
	}
	return nil
}

func parse() (o options, err error) {
	flag.StringVar(&o.millrace, "millrace", "millrace", "the command of this project")
	flag.StringVar(&o.kubeProxy, "kube-proxy", "", "the other proxy; none: it does not take part")
	flag.StringVar(&o.coreDNS, "coredns", "", "the other DNS server; none: it does not take part")
	flag.IntVar(&o.services, "services", 10000, "how many services there are")
	flag.IntVar(&o.endpoints, "endpoints", 10, "how many endpoints each has")
	flag.IntVar(&o.changes, "changes", 20, "how many endpoints are changed, one after the other")
	flag.IntVar(&o.runs, "runs", 1, "how often each has its turn")
	flag.IntVar(&o.perTurn, "questions", 0, "ask DNS servers so many questions a second, instead of comparing proxies")
	flag.IntVar(&o.rate, "rate", 0, "change so many endpoints a second as well, for 10 s, and then connect as often as possible for 10 s")
	flag.Parse()
	if o.services < 1 || o.endpoints < 2 || o.changes < 0 || o.runs < 1 {
		return o, errors.New("there must be a service, two endpoints of it, and a run")
	}
	return o, nil
}

func compare(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	if err := network(); err != nil {
		return fmt.Errorf("set up the namespace: %w", err)
	}
	s, err := startServer(ctx, o.millrace)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := s.fill(ctx, o); err != nil {
		return err
	}
	if o.perTurn > 0 {
		return s.compareNames(ctx, o)
	}
	var p *prober
	columns := head
	if o.rate > 0 {
		if p, err = s.newProber(ctx); err != nil {
			return err
		}
		columns += "\t" + loadHead
	}
	fmt.Println(columns)
	for range o.runs {
		for _, c := range contenders(o, s.kubeconfig()) {
			r, err := s.round(ctx, c, p, o)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Printf("%s\t%s\n", c.name, r)
		}
	}
	return nil
}

// network sets up the namespace's loopback, which has the node's address and those of the probe.
func network() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, text := range append(probeAddresses[:], nodeAddress) {
		address, err := netlink.ParseAddr(text + "/32")
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(lo, address); err != nil {
			return err
		}
	}
	_, everything, err := net.ParseCIDR("0.0.0.0/0") // packets to services need a route before their address is replaced
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: everything})
}
