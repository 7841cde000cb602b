package podspec

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Volumes that are older than CSI, grouped as in Kubernetes' validation.

func (x *examiner) disks(s *corev1.VolumeSource, one *choice) {
	if d := s.GCEPersistentDisk; d != nil {
		if _, first := one.open("gcePersistentDisk"); first {
			c := one.of.child("persistentDisk") // Kubernetes' internal name of the field
			x.requireText(c, "pdName", d.PDName)
			x.partition(c, d.Partition)
		}
	}
	if d := s.AWSElasticBlockStore; d != nil {
		if c, first := one.open("awsElasticBlockStore"); first {
			x.requireText(c, "volumeID", d.VolumeID)
			x.partition(c, d.Partition)
		}
	}
}

func (x *examiner) partition(p fieldPath, n int32) {
	if n < 0 || n > 255 {
		x.invalid(p.child("partition"), n, validation.InclusiveRangeError(1, 255)) // 0 means no partition
	}
}

func (x *examiner) networkVolumes(s *corev1.VolumeSource, one *choice) {
	if n := s.NFS; n != nil {
		if c, first := one.open("nfs"); first {
			x.requireText(c, "server", n.Server)
			x.absolutePath(c, "path", n.Path)
		}
	}
	if n := s.ISCSI; n != nil {
		if c, first := one.open("iscsi"); first {
			x.iscsi(c, n)
		}
	}
	if n := s.Glusterfs; n != nil {
		if c, first := one.open("glusterfs"); first {
			x.requireText(c, "endpoints", n.EndpointsName)
			x.requireText(c, "path", n.Path)
		}
	}
}

func (x *examiner) iscsi(p fieldPath, n *corev1.ISCSIVolumeSource) {
	x.requireText(p, "targetPortal", n.TargetPortal)
	if x.requireText(p, "iqn", n.IQN) {
		x.qualifiedISCSI(p.child("iqn"), n.IQN)
	}
	if n.Lun < 0 || n.Lun > 255 {
		x.invalid(p.child("lun"), n.Lun, validation.InclusiveRangeError(0, 255))
	}
	if (n.DiscoveryCHAPAuth || n.SessionCHAPAuth) && n.SecretRef == nil {
		x.required(p.child("secretRef"), "")
	}
	if n.InitiatorName != nil {
		x.qualifiedISCSI(p.child("initiatorname"), *n.InitiatorName)
	}
}

// The three forms of an iSCSI name: iqn (a domain and since when it is owned), eui (EUI-64), and naa.
var qualifiedISCSI = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.([[:alnum:].-]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui\.[[:xdigit:]]{16}$`),
	"naa": regexp.MustCompile(`^naa\.[[:xdigit:]]{32}$`),
}

// IsISCSIName reports whether a name may be an iSCSI name.
func IsISCSIName(name string) bool {
	form, known := qualifiedISCSI[name[:min(3, len(name))]]
	return known && form.MatchString(name)
}

func (x *examiner) qualifiedISCSI(p fieldPath, name string) {
	switch form, known := qualifiedISCSI[name[:min(3, len(name))]]; {
	case !known:
		x.invalid(p, name, "must be valid format starting with iqn, eui, or naa")
	case !form.MatchString(name):
		x.invalid(p, name, "must be valid format")
	}
}

func (x *examiner) clusterVolumes(s *corev1.VolumeSource, one *choice) {
	if r := s.RBD; r != nil {
		if c, first := one.open("rbd"); first {
			x.requireSome(c, "monitors", len(r.CephMonitors))
			x.requireText(c, "image", r.RBDImage)
		}
	}
	if v := s.Cinder; v != nil {
		if c, first := one.open("cinder"); first {
			x.requireText(c, "volumeID", v.VolumeID)
			if v.SecretRef != nil {
				x.requireText(c.child("secretRef"), "name", v.SecretRef.Name)
			}
		}
	}
	if v := s.CephFS; v != nil {
		if c, first := one.open("cephfs"); first {
			x.requireSome(c, "monitors", len(v.Monitors))
		}
	}
	if v := s.Flocker; v != nil {
		if c, first := one.open("flocker"); first {
			switch {
			case v.DatasetName == "" && v.DatasetUUID == "":
				x.required(c, "one of datasetName and datasetUUID is required")
			case v.DatasetName != "" && v.DatasetUUID != "":
				x.invalid(c, "resource", "datasetName and datasetUUID can not be specified simultaneously")
			}
			if strings.Contains(v.DatasetName, "/") {
				x.invalid(c.child("datasetName"), v.DatasetName, "must not contain '/'")
			}
		}
	}
}

func (x *examiner) requireSome(p fieldPath, name string, n int) {
	if n == 0 {
		x.required(p.child(name), "")
	}
}

func (x *examiner) channelVolumes(s *corev1.VolumeSource, one *choice) {
	if v := s.FC; v != nil {
		if c, first := one.open("fc"); first {
			x.fibreChannel(c, v)
		}
	}
	if v := s.FlexVolume; v != nil {
		if c, first := one.open("flexVolume"); first {
			x.requireText(c, "driver", v.Driver)
			x.flexOptions(c, v.Options)
		}
	}
}

func (x *examiner) flexOptions(p fieldPath, options map[string]string) {
	list := p.child("options")
	for _, key := range slices.Sorted(maps.Keys(options)) {
		namespace, _, _ := strings.Cut(strings.ToLower(key), "/")
		if namespace = "." + namespace; strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
			x.invalid(list.keyed(key), key, "kubernetes.io and k8s.io namespaces are reserved")
		}
	}
}

func (x *examiner) fibreChannel(p fieldPath, v *corev1.FCVolumeSource) {
	names, ids := len(v.TargetWWNs), len(v.WWIDs)
	if names == 0 && ids == 0 {
		x.required(p.child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")
	}
	if names > 0 && ids > 0 {
		x.invalid(p.child("targetWWNs"), v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if names == 0 {
		return
	}
	c := p.child("lun")
	switch {
	case v.Lun == nil:
		x.required(c, "lun is required if targetWWNs is specified")
	case *v.Lun < 0 || *v.Lun > 255:
		x.invalid(c, *v.Lun, validation.InclusiveRangeError(0, 255))
	}
}

func (x *examiner) vendorVolumes(s *corev1.VolumeSource, one *choice) {
	if v := s.AzureFile; v != nil {
		if c, first := one.open("azureFile"); first {
			x.requireText(c, "secretName", v.SecretName)
			x.requireText(c, "shareName", v.ShareName)
		}
	}
	if v := s.VsphereVolume; v != nil {
		if c, first := one.open("vsphereVolume"); first {
			x.requireText(c, "volumePath", v.VolumePath)
		}
	}
	if v := s.Quobyte; v != nil {
		if c, first := one.open("quobyte"); first {
			x.quobyte(c, v)
		}
	}
	if v := s.PhotonPersistentDisk; v != nil {
		if c, first := one.open("photonPersistentDisk"); first {
			x.requireText(c, "pdID", v.PdID)
		}
	}
	if v := s.PortworxVolume; v != nil {
		if c, first := one.open("portworxVolume"); first {
			x.requireText(c, "volumeID", v.VolumeID)
		}
	}
	if v := s.AzureDisk; v != nil {
		if c, first := one.open("azureDisk"); first {
			x.azureDisk(c, v)
		}
	}
	if v := s.StorageOS; v != nil {
		if c, first := one.open("storageos"); first {
			x.storageOS(c, v)
		}
	}
}

func (x *examiner) quobyte(p fieldPath, v *corev1.QuobyteVolumeSource) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	registry := p.child("registry")
	if v.Registry == "" {
		x.required(registry, pairs)
	} else {
		for pair := range strings.SplitSeq(v.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				x.invalid(registry, v.Registry, pairs)
			}
		}
	}
	if len(v.Tenant) >= 65 {
		x.required(p.child("tenant"), "must be a UUID and may not exceed a length of 64 characters")
	}
	x.requireText(p, "volume", v.Volume)
}

func (x *examiner) azureDisk(p fieldPath, v *corev1.AzureDiskVolumeSource) {
	x.requireText(p, "diskName", v.DiskName)
	x.requireText(p, "diskURI", v.DataDiskURI)
	if m := v.CachingMode; m != nil {
		oneOf(&x.findings, p.child("cachingMode"), *m, corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
	managed := false
	if k := v.Kind; k != nil {
		oneOf(&x.findings, p.child("kind"), *k, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)
		managed = *k == corev1.AzureManagedDisk
	}
	start, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if managed {
		start, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(v.DataDiskURI, start) {
		oneOf(&x.findings, p.child("diskURI"), v.DataDiskURI, form)
	}
}

func (x *examiner) storageOS(p fieldPath, v *corev1.StorageOSVolumeSource) {
	if x.requireText(p, "volumeName", v.VolumeName) {
		x.invalidAll(p.child("volumeName"), v.VolumeName, label(v.VolumeName))
	}
	if v.VolumeNamespace != "" {
		x.invalidAll(p.child("volumeNamespace"), v.VolumeNamespace, label(v.VolumeNamespace))
	}
	if v.SecretRef != nil {
		x.requireText(p.child("secretRef"), "name", v.SecretRef.Name)
	}
}
