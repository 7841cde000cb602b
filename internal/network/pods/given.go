//go:build linux

package pods

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/network/nft"
)

// Given are the addresses that the plugin has given to the pods of this node. They are known before the pods' first
// containers start, and long before the API knows them.
type Given struct {
	// Directory is that of Options.
	Directory string
}

func (g Given) addresses() addresses {
	return addresses{filepath.Join(orDefault(g.Directory), "addresses")}
}

// Owners returns the pods of the addresses. An address whose runtime did not name a pod is not among them.
func (g Given) Owners() (map[netip.Addr]Owner, error) {
	all := map[netip.Addr]Owner{}
	err := g.addresses().forEachFile(func(address netip.Addr, text string) error {
		_, second, _ := strings.Cut(text, "\n")
		if words := strings.Fields(second); len(words) == 3 {
			all[address] = Owner{words[0], words[1], words[2]}
		}
		return nil
	})
	return all, err
}

// Release lets packets from and to addresses pass that the plugin has held, because the policies know their pods now.
func (g Given) Release(known map[netip.Addr]bool) error {
	return g.addresses().locked(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		var b nft.Batch
		for _, family := range []nft.Family{nft.IPv4, nft.IPv6} {
			t := nft.Table{Family: family, Name: guardTable}
			held, err := heldIn(conn, t)
			if err != nil {
				return err
			}
			var free []nft.Element
			for _, a := range held {
				if known[a] {
					free = append(free, nft.Element{Key: string(a.AsSlice())})
				}
			}
			if free != nil {
				b.DeleteElements(t, heldSet, free)
			}
		}
		if b.Len() == 0 {
			return nil
		}
		return conn.Commit(&b)
	})
}

// heldIn returns the addresses of a table that wait for the policies.
func heldIn(conn *nft.Conn, t nft.Table) ([]netip.Addr, error) {
	comment, exists, err := conn.Comment(t)
	if err != nil || !exists || comment != guardLayout {
		return nil, err
	}
	elements, err := conn.Elements(t, heldSet)
	var all []netip.Addr
	for _, e := range elements {
		if a, ok := netip.AddrFromSlice([]byte(e.Key)); ok {
			all = append(all, a)
		}
	}
	return all, err
}

// watchEvery is how often the directory is looked at. The start of a pod waits for that.
const watchEvery = 50 * time.Millisecond

// Watch calls changed after addresses were given or taken back, until ctx ends. It looks at the directory's time
// instead of using inotify: root in a container may use up all of root's inotify instances, and the policies must not
// depend on that.
func (g Given) Watch(ctx context.Context, changed func()) error {
	directory := g.addresses().directory
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var last time.Time
	for again := false; ; {
		info, err := os.Stat(directory)
		moved := err == nil && !info.ModTime().Equal(last)
		if moved || again {
			changed()
		}
		if again = moved; moved { // a file may have been made and not yet written, and the time is a few milliseconds coarse
			last = info.ModTime()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
