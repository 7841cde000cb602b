package csi

import (
	"context"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// usageTime bounds the calls for the usage of one pod's volumes.
	usageTime = 10 * time.Second
	// usageFresh is how long a driver's answer is good: many drivers take long for it.
	usageFresh = time.Minute
)

// Usage is what a driver says of how full a volume is.
type Usage struct {
	// Volume is the name of an inline volume in its pod, and Claim that of the claim of another one.
	Volume, Claim string
	At            time.Time
	// Bytes and Inodes are nil if the driver does not know them.
	Bytes, Inodes *Amount
}

// Amount is a part of what a volume has.
type Amount struct{ Total, Available, Used uint64 }

// usages are the last answers of drivers.
type usages struct {
	mu  sync.Mutex
	all map[string]Usage // by the directory of the record; guarded by mu
}

// Usages are those of a pod's volumes whose drivers tell them. A driver that does not answer in time, or not without an
// error, is left out.
func (d *Drivers) Usages(ctx context.Context, pod types.UID) []Usage {
	records, err := d.records(string(pod))
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	var all []Usage
	for directory, r := range records {
		if u, ok := d.usage(ctx, directory, r); ok {
			all = append(all, u)
		}
	}
	return all
}

func (d *Drivers) usage(ctx context.Context, directory string, r *record) (Usage, bool) {
	d.used.mu.Lock()
	last, ok := d.used.all[directory]
	d.used.mu.Unlock()
	if ok && time.Since(last.At) < usageFresh {
		return last, true
	}
	x, err := d.find(r.Driver)
	if err != nil || !x.can[csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS] {
		return Usage{}, false
	}
	answer, err := x.node.NodeGetVolumeStats(ctx, &csipb.NodeGetVolumeStatsRequest{VolumeId: r.Handle, VolumePath: d.target(directory, r)})
	if err != nil {
		return Usage{}, false
	}
	u := Usage{Claim: r.Claim, At: time.Now()}
	if r.inline() {
		u.Volume = r.Name
	}
	for _, part := range answer.GetUsage() {
		amount := &Amount{uint64(max(part.Total, 0)), uint64(max(part.Available, 0)), uint64(max(part.Used, 0))}
		switch part.Unit {
		case csipb.VolumeUsage_BYTES:
			u.Bytes = amount
		case csipb.VolumeUsage_INODES:
			u.Inodes = amount
		}
	}
	d.used.mu.Lock()
	defer d.used.mu.Unlock()
	if d.used.all == nil {
		d.used.all = map[string]Usage{}
	}
	for other, o := range d.used.all { // of volumes that are gone
		if time.Since(o.At) > 2*usageFresh {
			delete(d.used.all, other)
		}
	}
	d.used.all[directory] = u
	return u, true
}
