package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// masqueradeBit is the bit of the mark that package services uses.
const masqueradeBit = 14

// Check returns an error if the configuration asks for something that this proxy does not do.
func Check(f *File) error {
	switch {
	case f.Mode != ModeNFTables:
		return fmt.Errorf("mode %q is not supported: only nftables is", f.Mode)
	case f.DetectLocalMode != LocalClusterCIDR:
		return fmt.Errorf("detectLocalMode %q is not supported: only ClusterCIDR is", f.DetectLocalMode)
	case *f.NFTables.MasqueradeBit != masqueradeBit:
		return fmt.Errorf("nftables.masqueradeBit %d is not supported: only %d is", *f.NFTables.MasqueradeBit, masqueradeBit)
	case *f.OOMScoreAdj < -1000 || *f.OOMScoreAdj > 1000:
		return fmt.Errorf("oomScoreAdj %d must be within the range [-1000, 1000]", *f.OOMScoreAdj)
	case *f.Conntrack.MaxPerCore < 0 || *f.Conntrack.Min < 0:
		return fmt.Errorf("conntrack.maxPerCore %d and conntrack.min %d must be greater than or equal to 0", *f.Conntrack.MaxPerCore, *f.Conntrack.Min)
	}
	for name, d := range map[string]time.Duration{
		"tcpEstablishedTimeout": f.Conntrack.TCPEstablishedTimeout.Duration, "tcpCloseWaitTimeout": f.Conntrack.TCPCloseWaitTimeout.Duration,
		"udpTimeout": f.Conntrack.UDPTimeout.Duration, "udpStreamTimeout": f.Conntrack.UDPStreamTimeout.Duration,
	} {
		if d < 0 {
			return fmt.Errorf("conntrack.%s %v must be greater than or equal to 0", name, d)
		}
	}
	for name, address := range map[string]string{"healthzBindAddress": f.HealthzBindAddress, "metricsBindAddress": f.MetricsBindAddress} {
		if host, _, err := net.SplitHostPort(address); address != "" && (err != nil || host != "" && net.ParseIP(host) == nil) {
			return fmt.Errorf("%s %q must be an IP address and a port", name, address)
		}
	}
	return nil
}

// used are the fields that have an effect. The value is nil if all fields below have it.
var used = map[string][]string{
	"kind": nil, "apiVersion": nil, "hostnameOverride": nil, "healthzBindAddress": nil, "metricsBindAddress": nil, "mode": nil,
	"detectLocalMode": nil, "clusterCIDR": nil, "nodePortAddresses": nil, "oomScoreAdj": nil, "conntrack": nil,
	"clientConnection": {"kubeconfig"},
	"nftables":         {"masqueradeBit", "masqueradeAll"},
	"logging":          {"format", "verbosity"},
}

// Ignored returns the names of the fields that differ from their defaults and have no effect, in their order.
func Ignored(f *File) ([]string, error) {
	have, err := fields(f)
	if err != nil {
		return nil, err
	}
	defaults, err := fields(Default())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(have)) {
		below, known := used[name]
		if known && below == nil || same(have[name], defaults[name]) {
			continue
		}
		inner, isObject := have[name].(map[string]any)
		standard, hasDefault := defaults[name].(map[string]any)
		if !isObject || !hasDefault {
			out = append(out, name)
			continue
		}
		for _, field := range slices.Sorted(maps.Keys(inner)) {
			if !slices.Contains(below, field) && !same(inner[field], standard[field]) {
				out = append(out, name+"."+field)
			}
		}
	}
	return out, nil
}

// fields returns a configuration as its file has it.
func fields(f *File) (map[string]any, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(text, &out)
}

func same(a, b any) bool {
	left, err := json.Marshal(a)
	right, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(left) == string(right)
}
