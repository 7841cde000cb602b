package csi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/kubelet/fsgroup"
)

// mount is one volume of one pod on its way.
type mount struct {
	*Drivers
	pod       *corev1.Pod
	driver    *driver
	options   *storagev1.CSIDriver // nil if the cluster knows nothing of it
	record    record
	directory string

	context, published map[string]string // of the volume, and of its attachment
	modes              []corev1.PersistentVolumeAccessMode
	fsType             string
	flags              []string
	readOnly           bool
	stageSecret        *corev1.SecretReference
	publishSecret      *corev1.SecretReference
}

// Persistent makes the volume of a claim ready for a pod, and returns the path of its file system or of its device.
func (d *Drivers) Persistent(ctx context.Context, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, readOnly bool) (string, error) {
	s := pv.Spec.CSI
	block := pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
	m := &mount{
		Drivers: d, pod: pod, directory: d.directory(string(pod.UID), pv.Name, block), context: maps.Clone(s.VolumeAttributes), modes: pv.Spec.AccessModes,
		fsType: s.FSType, flags: pv.Spec.MountOptions, readOnly: readOnly || s.ReadOnly, stageSecret: s.NodeStageSecretRef, publishSecret: s.NodePublishSecretRef,
		record: record{Name: pv.Name, Handle: s.VolumeHandle, Driver: s.Driver, Node: d.Node, Mode: string(storagev1.VolumeLifecyclePersistent), Claim: claim.Name, Block: block},
	}
	path, err := m.do(ctx)
	if err == nil {
		err = m.expand(ctx, claim, pv)
	}
	return path, err
}

// Inline makes a volume ready that a pod has by itself.
func (d *Drivers) Inline(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	s := v.CSI
	sum := sha256.Sum256([]byte(pod.Namespace + string(pod.UID) + v.Name))
	m := &mount{
		Drivers: d, pod: pod, directory: d.directory(string(pod.UID), v.Name, false), context: maps.Clone(s.VolumeAttributes), readOnly: s.ReadOnly != nil && *s.ReadOnly,
		record: record{Name: v.Name, Handle: fmt.Sprintf("csi-%x", sum), Driver: s.Driver, Node: d.Node, Mode: string(storagev1.VolumeLifecycleEphemeral)},
	}
	if s.FSType != nil {
		m.fsType = *s.FSType
	}
	if s.NodePublishSecretRef != nil {
		m.publishSecret = &corev1.SecretReference{Namespace: pod.Namespace, Name: s.NodePublishSecretRef.Name}
	}
	return m.do(ctx)
}

func (m *mount) inline() bool { return m.record.inline() }

func (m *mount) do(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer m.volumes.lock(m.volume())()
	done, target := filepath.Join(m.directory, "published"), m.target(m.directory, &m.record)
	republish := false
	var err error
	if m.driver, err = m.find(m.record.Driver); err != nil {
		return "", err
	}
	if m.options, err = m.Kube.StorageV1().CSIDrivers().Get(ctx, m.record.Driver, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		m.options = nil
	} else if err != nil {
		return "", fmt.Errorf("read CSIDriver %s: %w", m.record.Driver, err)
	}
	if _, err := os.Stat(done); err == nil {
		if republish = m.options != nil && m.options.Spec.RequiresRepublish != nil && *m.options.Spec.RequiresRepublish; !republish {
			return target, nil
		}
	}
	if err := m.begin(ctx); err != nil {
		return "", err
	}
	staging, err := m.stage(ctx)
	if err != nil {
		return "", err
	}
	if err := m.publish(ctx, staging, target); err != nil {
		return "", err
	}
	if !republish {
		if err := m.giveToGroup(); err != nil {
			return "", err
		}
	}
	return target, os.WriteFile(done, nil, 0o600)
}

// begin notes on disk what is about to be done, and waits for the attachment.
func (m *mount) begin(ctx context.Context) error {
	if m.inline() && !m.allowed(storagev1.VolumeLifecycleEphemeral) {
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", m.record.Mode, m.record.Driver)
	}
	attach := !m.inline() && (m.options == nil || m.options.Spec.AttachRequired == nil || *m.options.Spec.AttachRequired)
	if attach {
		m.record.Attached = true
		m.record.Attachment = fmt.Sprintf("csi-%x", sha256.Sum256([]byte(m.record.Handle+m.record.Driver+m.record.Node)))
	}
	if err := m.alone(); err != nil {
		return err
	}
	before, err := load(m.directory)
	if err := save(m.directory, &m.record); err != nil {
		return err
	}
	if attach && (err != nil || before.Attachment != m.record.Attachment) {
		m.Changed()
	}
	if !attach {
		return nil
	}
	a, err := m.Kube.StorageV1().VolumeAttachments().Get(ctx, m.record.Attachment, metav1.GetOptions{})
	switch {
	case err != nil:
		return fmt.Errorf("wait for volume %s to be attached: %w", m.record.Name, err)
	case !a.Status.Attached && a.Status.AttachError != nil:
		return fmt.Errorf("volume %s is not attached: %s", m.record.Name, a.Status.AttachError.Message)
	case !a.Status.Attached || a.DeletionTimestamp != nil:
		return fmt.Errorf("volume %s is not attached yet", m.record.Name)
	}
	m.published = a.Status.AttachmentMetadata
	return nil
}

var errInUse = errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

// alone returns an error if another pod of the node has a volume that only one may have. Pods that the scheduler places
// meet no other: these have been given a node by somebody else.
func (m *mount) alone() error {
	if len(m.modes) != 1 || m.modes[0] != corev1.ReadWriteOncePod {
		return nil
	}
	all, err := m.records("*")
	if err != nil {
		return err
	}
	for directory, r := range all {
		if directory != m.directory && r.volume() == m.record.volume() {
			return errInUse
		}
	}
	return nil
}

func (m *mount) allowed(mode storagev1.VolumeLifecycleMode) bool {
	if m.options == nil {
		return mode == storagev1.VolumeLifecyclePersistent
	}
	for _, has := range m.options.Spec.VolumeLifecycleModes {
		if has == mode {
			return true
		}
	}
	return false
}

// stage has the driver stage a volume, if it does that.
func (m *mount) stage(ctx context.Context) (string, error) {
	if m.inline() || !m.driver.can[csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		return "", nil
	}
	secrets, err := m.secrets(ctx, m.stageSecret)
	if err != nil {
		return "", err
	}
	path, directory := m.staging(&m.record)
	_, statErr := os.Stat(path)
	if err := save(directory, &m.record); err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o750); err != nil {
		return "", err
	}
	_, err = m.driver.node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
		VolumeId: m.record.Handle, PublishContext: m.published, StagingTargetPath: path, VolumeCapability: m.capability(), Secrets: secrets, VolumeContext: m.context,
	})
	if err != nil {
		err = fmt.Errorf("stage volume %s: %w", m.record.Name, err)
		if errors.Is(statErr, fs.ErrNotExist) && isFinal(err) {
			err = errors.Join(err, m.removeStaging(&m.record)) // so it need not be unstaged
		}
		return "", err
	}
	return path, nil
}

// isFinal reports whether a driver has done nothing and does nothing any more, by its error. After other errors it may
// still be at work.
func isFinal(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

func (m *mount) publish(ctx context.Context, staging, target string) error {
	about, secrets, err := m.about(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	_, err = m.driver.node.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
		VolumeId: m.record.Handle, PublishContext: m.published, StagingTargetPath: staging, TargetPath: target, VolumeCapability: m.capability(),
		Readonly: m.readOnly, Secrets: secrets, VolumeContext: about,
	})
	if err != nil {
		return fmt.Errorf("publish volume %s: %w", m.record.Name, err)
	}
	return nil
}

func (m *mount) secrets(ctx context.Context, ref *corev1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	secret, err := m.Kube.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read secret %s/%s of volume %s: %w", ref.Namespace, ref.Name, m.record.Name, err)
	}
	all := make(map[string]string, len(secret.Data))
	for k, v := range secret.Data {
		all[k] = string(v)
	}
	return all, nil
}

// capability is how a volume is to be used.
func (m *mount) capability() *csipb.VolumeCapability {
	mode := &csipb.VolumeCapability_AccessMode{Mode: m.accessMode()}
	if m.record.Block {
		return &csipb.VolumeCapability{AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}, AccessMode: mode}
	}
	v := &csipb.VolumeCapability_MountVolume{FsType: m.fsType, MountFlags: m.flags}
	if group := fsgroup.Of(m.pod); group != nil && m.driver.can[csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP] {
		v.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	return &csipb.VolumeCapability{AccessType: &csipb.VolumeCapability_Mount{Mount: v}, AccessMode: mode}
}

// accessMode is the widest that a volume has.
func (m *mount) accessMode() csipb.VolumeCapability_AccessMode_Mode {
	has := map[corev1.PersistentVolumeAccessMode]bool{}
	for _, mode := range m.modes {
		has[mode] = true
	}
	multi := m.driver.can[csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER]
	switch {
	case has[corev1.ReadWriteMany]:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case has[corev1.ReadOnlyMany] && has[corev1.ReadWriteOnce]:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case has[corev1.ReadOnlyMany]:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case has[corev1.ReadWriteOnce] && multi:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	case has[corev1.ReadWriteOncePod] && multi:
		return csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	}
	return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}
