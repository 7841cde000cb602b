package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/millrace/millrace/loop"
	"github.com/millrace/millrace/queue"
)

// unstageWorkers is how many volumes are unstaged at a time.
const unstageWorkers = 10

// newUnstaging makes the loop that has volumes unstaged. Its delays are those of Kubernetes.
func (d *Drivers) newUnstaging() *loop.Loop {
	return &loop.Loop{
		Name: "unstaging", Clients: &loop.Clients{Log: d.Logger}, Workers: unstageWorkers, Sync: d.unstage,
		Queue: queue.Options[loop.Key]{BaseDelay: 500 * time.Millisecond, MaxDelay: 122 * time.Second},
	}
}

// Run has volumes unstaged that no pod of the node has any more, until ctx ends. It begins with those that an earlier
// kubelet has left.
func (d *Drivers) Run(ctx context.Context) error {
	all, err := d.staged()
	if err != nil {
		d.Logger.Warn("volumes that were left staged cannot be found", "err", err)
	}
	for _, r := range all {
		d.unstaging.Add(r.key())
	}
	return d.unstaging.Run(ctx)
}

// unstage has a volume unstaged, unless a pod of the node has it.
func (d *Drivers) unstage(ctx context.Context, key loop.Key) (loop.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer d.volumes.lock(key.Namespace + "/" + key.Name)()
	published, err := d.records("*")
	if err != nil {
		return loop.Result{}, err
	}
	for _, r := range published {
		if r.key() == key {
			return loop.Result{}, nil
		}
	}
	staged, err := d.staged()
	if err != nil {
		return loop.Result{}, err
	}
	for _, r := range staged {
		if r.key() == key {
			return loop.Result{}, d.undo(ctx, r)
		}
	}
	return loop.Result{}, nil
}

// undo takes a volume from the node.
func (d *Drivers) undo(ctx context.Context, r *record) error {
	path, _ := d.staging(r)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) { // else it was never staged
		x, err := d.find(r.Driver)
		if err != nil {
			return fmt.Errorf("unstage volume %s: %w", r.Name, err)
		}
		if _, err := x.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: r.Handle, StagingTargetPath: path}); err != nil {
			return fmt.Errorf("unstage volume %s: %w", r.Name, err)
		}
	}
	err := d.removeStaging(r)
	d.Changed()
	return err
}
