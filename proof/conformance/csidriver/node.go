//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetCapabilities tells what can be done on the node.
func (d *driver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	answer := &csipb.NodeGetCapabilitiesResponse{}
	for _, c := range []csipb.NodeServiceCapability_RPC_Type{
		csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csipb.NodeServiceCapability_RPC_EXPAND_VOLUME, csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		answer.Capabilities = append(answer.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return answer, nil
}

// NodeGetInfo tells where the node is.
func (d *driver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	answer := &csipb.NodeGetInfoResponse{NodeId: d.node, MaxVolumesPerNode: max(d.limit, d.attachLimit)}
	if d.topology {
		answer.AccessibleTopology = d.place()
	}
	return answer, nil
}

// NodeStageVolume checks that the volume is there: nothing needs to be staged.
func (d *driver) NodeStageVolume(_ context.Context, r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.volumes[r.VolumeId] == nil {
		return nil, missing(r.VolumeId)
	}
	return &csipb.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume has nothing to undo.
func (d *driver) NodeUnstageVolume(context.Context, *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	return &csipb.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume mounts a volume, or its loop device. An inline volume is made first.
func (d *driver) NodePublishVolume(_ context.Context, r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil {
		if r.VolumeContext["csi.storage.k8s.io/ephemeral"] != "true" {
			return nil, missing(r.VolumeId)
		}
		v = &volume{ID: r.VolumeId, Name: r.VolumeId, Size: smallest, Ephemeral: true}
		if err := d.make(v, nil); err != nil {
			return nil, err
		}
	}
	if mounted(r.TargetPath) {
		return &csipb.NodePublishVolumeResponse{}, nil
	}
	source, err := d.source(v, r.TargetPath)
	if err != nil {
		return nil, err
	}
	if _, err := run("mount", "--bind", source, r.TargetPath); err != nil {
		return nil, err
	}
	if r.Readonly {
		if _, err := run("mount", "-o", "remount,bind,ro", r.TargetPath); err != nil {
			return nil, err
		}
	}
	return &csipb.NodePublishVolumeResponse{}, nil
}

// source makes the target for a mount, and returns what to mount there.
func (d *driver) source(v *volume, target string) (string, error) {
	if !v.Block {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return "", failed(err)
		}
		return d.path(v), nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return "", failed(err)
	}
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		return "", failed(err)
	}
	device := v.Loops[target]
	if device == "" {
		var err error
		if device, err = run("losetup", "--find", "--show", d.path(v)); err != nil {
			return "", err
		}
		if v.Loops == nil {
			v.Loops = map[string]string{}
		}
		v.Loops[target] = device
		d.save()
	}
	return device, nil
}

// mounted reports whether something is mounted at a path.
func mounted(path string) bool {
	_, err := run("findmnt", "--mountpoint", path)
	return err == nil
}

// NodeUnpublishVolume undoes that. What is not there any more is no error.
func (d *driver) NodeUnpublishVolume(_ context.Context, r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if mounted(r.TargetPath) {
		if _, err := run("umount", r.TargetPath); err != nil {
			return nil, err
		}
	}
	if err := os.Remove(r.TargetPath); err != nil && !os.IsNotExist(err) {
		return nil, failed(err)
	}
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csipb.NodeUnpublishVolumeResponse{}, nil
	}
	if device := v.Loops[r.TargetPath]; device != "" {
		if _, err := run("losetup", "--detach", device); err != nil {
			return nil, err
		}
		delete(v.Loops, r.TargetPath)
		d.save()
	}
	if v.Ephemeral {
		return &csipb.NodeUnpublishVolumeResponse{}, d.remove(v)
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats measures the file system of a volume, or tells the size of a device.
func (d *driver) NodeGetVolumeStats(_ context.Context, r *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return nil, missing(r.VolumeId)
	}
	if v.Block {
		return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{{Total: v.Size, Unit: csipb.VolumeUsage_BYTES}}}, nil
	}
	var s unix.Statfs_t
	if err := unix.Statfs(r.VolumePath, &s); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{
		{Total: int64(s.Blocks) * int64(s.Bsize), Available: int64(s.Bavail) * int64(s.Bsize), Used: int64(s.Blocks-s.Bfree) * int64(s.Bsize), Unit: csipb.VolumeUsage_BYTES},
		{Total: int64(s.Files), Available: int64(s.Ffree), Used: int64(s.Files - s.Ffree), Unit: csipb.VolumeUsage_INODES},
	}}, nil
}

// NodeExpandVolume lets loop devices see that their file has grown.
func (d *driver) NodeExpandVolume(_ context.Context, r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return nil, missing(r.VolumeId)
	}
	for _, device := range v.Loops {
		if _, err := run("losetup", "--set-capacity", device); err != nil {
			return nil, err
		}
	}
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}
