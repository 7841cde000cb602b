package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// nodeIDs is the annotation that says what each driver calls the node.
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// announce writes what a driver says of the node: into its labels and its CSINode.
func (d *Drivers) announce(ctx context.Context, driver string, info *csipb.NodeGetInfoResponse) error {
	topology := info.GetAccessibleTopology().GetSegments()
	if err := d.label(ctx, driver, info.GetNodeId(), topology); err != nil {
		return err
	}
	one := storagev1.CSINodeDriver{Name: driver, NodeID: info.GetNodeId(), TopologyKeys: slices.Sorted(maps.Keys(topology))}
	if most := info.GetMaxVolumesPerNode(); most > 0 {
		one.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(most, 1<<31-1)))}
	}
	return d.describe(ctx, driver, &one)
}

// withdraw takes a driver from the CSINode.
func (d *Drivers) withdraw(ctx context.Context, driver string) error {
	return d.describe(ctx, driver, nil)
}

func (d *Drivers) label(ctx context.Context, driver, id string, topology map[string]string) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := d.Kube.CoreV1().Nodes().Get(ctx, d.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := node.DeepCopy()
		for key, value := range topology {
			if has, ok := node.Labels[key]; ok && has != value {
				return fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q", key, value, key, has)
			}
			metav1.SetMetaDataLabel(&node.ObjectMeta, key, value)
		}
		ids := map[string]string{}
		if text := node.Annotations[nodeIDs]; text != "" {
			if err := json.Unmarshal([]byte(text), &ids); err != nil {
				return fmt.Errorf("read annotation %s: %w", nodeIDs, err)
			}
		}
		ids[driver] = id
		encoded, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, nodeIDs, string(encoded))
		if equality.Semantic.DeepEqual(before, node) {
			return nil
		}
		_, err = d.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("write the topology of driver %s to node %s: %w", driver, d.Node, err)
	}
	return nil
}

// describe replaces a driver's entry in the CSINode; nil removes it.
func (d *Drivers) describe(ctx context.Context, driver string, entry *storagev1.CSINodeDriver) error {
	nodes := d.Kube.StorageV1().CSINodes()
	err := retry.OnError(retry.DefaultRetry, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, func() error {
		have, err := nodes.Get(ctx, d.Node, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			if entry == nil {
				return nil
			}
			return d.createNode(ctx, entry)
		}
		if err != nil {
			return err
		}
		changed := have.DeepCopy()
		changed.Spec.Drivers = slices.DeleteFunc(changed.Spec.Drivers, func(x storagev1.CSINodeDriver) bool { return x.Name == driver })
		if entry != nil {
			changed.Spec.Drivers = append(changed.Spec.Drivers, *entry)
		}
		if equality.Semantic.DeepEqual(have, changed) {
			return nil
		}
		_, err = nodes.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("write driver %s to CSINode %s: %w", driver, d.Node, err)
	}
	return nil
}

func (d *Drivers) createNode(ctx context.Context, entry *storagev1.CSINodeDriver) error {
	node, err := d.Kube.CoreV1().Nodes().Get(ctx, d.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = d.Kube.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: d.Node, OwnerReferences: []metav1.OwnerReference{{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID}}},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{*entry}},
	}, metav1.CreateOptions{})
	return err
}
