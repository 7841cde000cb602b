//go:build linux

package services

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/network/internal/nettest"
)

func TestConnectionTrackingIsSetAndALimitIsNeverLowered(t *testing.T) {
	d := t.TempDir()
	file := func(name string) string { return filepath.Join(d, name) }
	before := map[string]string{
		"nf_conntrack_max": "50000", "hashsize": "65536", "nf_conntrack_tcp_timeout_established": "432000", "nf_conntrack_tcp_timeout_close_wait": "60",
		"nf_conntrack_udp_timeout": "30", "nf_conntrack_udp_timeout_stream": "120", "nf_conntrack_tcp_be_liberal": "0",
	}
	for _, one := range []struct {
		name string
		c    Conntrack
		want map[string]string // what differs from before
	}{
		{"nothing", Conntrack{}, nil},
		{"the limit of each processor", Conntrack{MaxPerCore: 100000, Min: 1000}, map[string]string{"nf_conntrack_max": "400000", "hashsize": "100000"}},
		{"the smallest limit", Conntrack{MaxPerCore: 1, Min: 60000}, map[string]string{"nf_conntrack_max": "60000"}},
		{"a lower limit", Conntrack{MaxPerCore: 100}, nil},
		{"a smallest limit alone", Conntrack{Min: 60000}, nil},
		{"times", Conntrack{Established: 24 * time.Hour, CloseWait: time.Hour, Unreplied: 10 * time.Second, Assured: time.Minute, Liberal: true}, map[string]string{
			"nf_conntrack_tcp_timeout_established": "86400", "nf_conntrack_tcp_timeout_close_wait": "3600", "nf_conntrack_udp_timeout": "10",
			"nf_conntrack_udp_timeout_stream": "60", "nf_conntrack_tcp_be_liberal": "1",
		}},
	} {
		for name, text := range before {
			if err := os.WriteFile(file(name), []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := one.c.apply(d, file("hashsize"), 4); err != nil {
			t.Errorf("%s: %v", one.name, err)
		}
		for name, old := range before {
			want, changed := one.want[name]
			if !changed {
				want = old + "\n"
			}
			if got, err := os.ReadFile(file(name)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q, want %q (%v)", one.name, name, got, want, err)
			}
		}
	}
}

func TestTheKernelTakesTheTimesOfConnections(t *testing.T) {
	n := nettest.New(t)
	n.Do(func() error {
		if err := (Conntrack{CloseWait: time.Hour}).Apply(); err != nil {
			return err
		}
		got, err := os.ReadFile(sysctlDirectory + "/nf_conntrack_tcp_timeout_close_wait")
		if string(got) != "3600\n" {
			t.Errorf("the time of half closed connections is %q", got)
		}
		return err
	})
}
