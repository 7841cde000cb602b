//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// smallest is the size of volumes that nobody wants larger.
const smallest = 1 << 20

// ControllerGetCapabilities tells what can be done with volumes.
func (d *driver) ControllerGetCapabilities(context.Context, *csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	can := []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME, csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if d.attaches {
		can = append(can, csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	if d.modify {
		can = append(can, csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	answer := &csipb.ControllerGetCapabilitiesResponse{}
	for _, c := range can {
		answer.Capabilities = append(answer.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: c}},
		})
	}
	return answer, nil
}

// CreateVolume makes a volume, unless it is there.
func (d *driver) CreateVolume(_ context.Context, r *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if err := d.checkParameters(r.MutableParameters); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	v := &volume{ID: rand.Text(), Name: r.Name, Size: max(r.CapacityRange.GetRequiredBytes(), smallest)}
	for _, c := range r.VolumeCapabilities {
		v.Block = v.Block || c.GetBlock() != nil
	}
	for _, had := range d.volumes {
		if had.Name != r.Name {
			continue
		}
		if had.Size < v.Size || had.Block != v.Block {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s is another one", r.Name)
		}
		return d.created(had, r), nil
	}
	var from *volume
	if source := r.VolumeContentSource; source != nil {
		if from = d.volumes[source.GetVolume().GetVolumeId()]; from == nil {
			return nil, missing(source.GetVolume().GetVolumeId())
		}
		if from.Block != v.Block || from.Size > v.Size {
			return nil, status.Error(codes.InvalidArgument, "the source is larger, or of another mode")
		}
	}
	if err := d.make(v, from); err != nil {
		return nil, err
	}
	return d.created(v, r), nil
}

func (d *driver) created(v *volume, r *csipb.CreateVolumeRequest) *csipb.CreateVolumeResponse {
	answer := &csipb.Volume{VolumeId: v.ID, CapacityBytes: v.Size, VolumeContext: r.Parameters, ContentSource: r.VolumeContentSource}
	if d.topology {
		answer.AccessibleTopology = []*csipb.Topology{d.place()}
	}
	return &csipb.CreateVolumeResponse{Volume: answer}
}

// DeleteVolume removes a volume. One that is not there is no error.
func (d *driver) DeleteVolume(_ context.Context, r *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return &csipb.DeleteVolumeResponse{}, nil
	}
	if len(v.Nodes) > 0 || len(v.Loops) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in use", r.VolumeId)
	}
	return &csipb.DeleteVolumeResponse{}, d.remove(v)
}

// ControllerPublishVolume notes that a volume is attached.
func (d *driver) ControllerPublishVolume(_ context.Context, r *csipb.ControllerPublishVolumeRequest) (*csipb.ControllerPublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil || r.NodeId != d.node {
		return nil, status.Errorf(codes.NotFound, "volume %s or node %s does not exist", r.VolumeId, r.NodeId)
	}
	attached := int64(0)
	for _, other := range d.volumes {
		if other != v && other.Nodes[r.NodeId] {
			attached++
		}
	}
	if d.attachLimit > 0 && attached >= d.attachLimit {
		return nil, status.Error(codes.ResourceExhausted, "the node has too many volumes")
	}
	if v.Nodes == nil {
		v.Nodes = map[string]bool{}
	}
	v.Nodes[r.NodeId] = true
	d.save()
	return &csipb.ControllerPublishVolumeResponse{}, nil
}

// ControllerUnpublishVolume undoes that.
func (d *driver) ControllerUnpublishVolume(_ context.Context, r *csipb.ControllerUnpublishVolumeRequest) (*csipb.ControllerUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.volumes[r.VolumeId]; v != nil {
		delete(v.Nodes, r.NodeId)
		d.save()
	}
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}

// ControllerExpandVolume makes a volume larger.
func (d *driver) ControllerExpandVolume(_ context.Context, r *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[r.VolumeId]
	if v == nil {
		return nil, missing(r.VolumeId)
	}
	if size := r.CapacityRange.GetRequiredBytes(); size > v.Size {
		v.Size = size
		if err := d.make(v, nil); err != nil {
			return nil, err
		}
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: d.grows}, nil
}

// ControllerModifyVolume checks the parameters, which have no meaning.
func (d *driver) ControllerModifyVolume(_ context.Context, r *csipb.ControllerModifyVolumeRequest) (*csipb.ControllerModifyVolumeResponse, error) {
	if err := d.checkParameters(r.MutableParameters); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.volumes[r.VolumeId] == nil {
		return nil, missing(r.VolumeId)
	}
	return &csipb.ControllerModifyVolumeResponse{}, nil
}

func (d *driver) checkParameters(parameters map[string]string) error {
	if d.parameters == "" {
		return nil
	}
	for name := range parameters {
		if !strings.Contains(","+d.parameters+",", ","+name+",") {
			return status.Errorf(codes.InvalidArgument, "parameter %s cannot be changed", name)
		}
	}
	return nil
}

// ValidateVolumeCapabilities confirms what a volume can be.
func (d *driver) ValidateVolumeCapabilities(_ context.Context, r *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.volumes[r.VolumeId] == nil {
		return nil, missing(r.VolumeId)
	}
	confirmed := &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeContext: r.VolumeContext, VolumeCapabilities: r.VolumeCapabilities, Parameters: r.Parameters}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: confirmed}, nil
}
