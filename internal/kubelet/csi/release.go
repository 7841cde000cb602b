package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
)

// Release takes from a pod the volumes that drivers have given it. It fails as long as one of them is there.
func (d *Drivers) Release(ctx context.Context, uid string) error {
	all, err := d.records(uid)
	if err != nil || len(all) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var failed error
	for directory, r := range all {
		failed = errors.Join(failed, d.unpublish(ctx, directory, r))
	}
	d.Changed()
	return failed
}

// unpublish undoes what was done for one pod. What was done for the node is undone later.
func (d *Drivers) unpublish(ctx context.Context, directory string, r *record) error {
	defer d.volumes.lock(r.volume())()
	x, err := d.find(r.Driver)
	if err != nil {
		return fmt.Errorf("take volume %s from a pod: %w", r.Name, err)
	}
	target := d.target(directory, r)
	if _, err := x.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: r.Handle, TargetPath: target}); err != nil {
		return fmt.Errorf("unpublish volume %s: %w", r.Name, err)
	}
	if err := removeEmpty(target, filepath.Join(directory, "published")); err != nil {
		return fmt.Errorf("remove the directory of volume %s: %w", r.Name, err)
	}
	last, err := d.last(directory, r)
	if err != nil {
		return err
	}
	if last {
		d.sizes.forget(r.volume())
	}
	if err := removeEmpty(filepath.Join(directory, recordName), directory); err != nil {
		return fmt.Errorf("remove the directory of volume %s: %w", r.Name, err)
	}
	d.unstaging.Add(r.key())
	return nil
}

// removeEmpty removes files, and directories that are empty: whatever is in another one is not ours. What is not there
// is no error.
func removeEmpty(paths ...string) error {
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// last reports whether no other pod of the node has a volume.
func (d *Drivers) last(directory string, r *record) (bool, error) {
	all, err := d.records("*")
	if err != nil {
		return false, err
	}
	for other, o := range all {
		if other != directory && o.volume() == r.volume() {
			return false, nil
		}
	}
	return true, nil
}

// removeStaging removes the directories where a volume was staged.
func (d *Drivers) removeStaging(r *record) error {
	path, where := d.staging(r)
	paths := []string{path, filepath.Join(where, recordName), where}
	if r.Block {
		paths = append(paths, filepath.Dir(where), filepath.Join(d.devices(), "publish", r.Name))
	}
	if err := removeEmpty(paths...); err != nil {
		return fmt.Errorf("remove where volume %s was staged: %w", r.Name, err)
	}
	return nil
}
