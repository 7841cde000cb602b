package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Volumes of times before CSI, in the groups in which Kubernetes looks at them.

func (x *examiner) disks(s *corev1.VolumeSource, one *choice) {
	if d := s.GCEPersistentDisk; d != nil {
		if c, first := one.open("gcePersistentDisk"); first {
			x.requireText(&c, "pdName", d.PDName)
			x.partition(&c, d.Partition)
		}
	}
	if d := s.AWSElasticBlockStore; d != nil {
		if c, first := one.open("awsElasticBlockStore"); first {
			x.requireText(&c, "volumeID", d.VolumeID)
			x.partition(&c, d.Partition)
		}
	}
}

func (x *examiner) partition(p *place, n int32) {
	if n < 0 || n > 255 {
		c := p.child("partition")
		x.invalid(&c, n, validation.InclusiveRangeError(0, 255))
	}
}

func (x *examiner) networkVolumes(s *corev1.VolumeSource, one *choice) {
	if n := s.NFS; n != nil {
		if c, first := one.open("nfs"); first {
			x.requireText(&c, "server", n.Server)
			x.absolutePath(&c, "path", n.Path)
		}
	}
	if n := s.ISCSI; n != nil {
		if c, first := one.open("iscsi"); first {
			x.iscsi(&c, n)
		}
	}
	if n := s.Glusterfs; n != nil {
		if c, first := one.open("glusterfs"); first {
			x.requireText(&c, "endpoints", n.EndpointsName)
			x.requireText(&c, "path", n.Path)
		}
	}
}

func (x *examiner) iscsi(p *place, n *corev1.ISCSIVolumeSource) {
	x.requireText(p, "targetPortal", n.TargetPortal)
	if x.requireText(p, "iqn", n.IQN) && !strings.HasPrefix(n.IQN, "iqn") && !strings.HasPrefix(n.IQN, "eui") && !strings.HasPrefix(n.IQN, "naa") {
		c := p.child("iqn")
		x.invalid(&c, n.IQN, "must be valid format starting with iqn, eui, or naa")
	}
	if n.Lun < 0 || n.Lun > 255 {
		c := p.child("lun")
		x.invalid(&c, n.Lun, validation.InclusiveRangeError(0, 255))
	}
	if (n.DiscoveryCHAPAuth || n.SessionCHAPAuth) && n.SecretRef == nil {
		c := p.child("secretRef")
		x.required(&c, "")
	}
}

func (x *examiner) clusterVolumes(s *corev1.VolumeSource, one *choice) {
	if r := s.RBD; r != nil {
		if c, first := one.open("rbd"); first {
			x.requireSome(&c, "monitors", len(r.CephMonitors))
			x.requireText(&c, "image", r.RBDImage)
		}
	}
	if v := s.Cinder; v != nil {
		if c, first := one.open("cinder"); first {
			x.requireText(&c, "volumeID", v.VolumeID)
			if v.SecretRef != nil {
				ref := c.child("secretRef")
				x.requireText(&ref, "name", v.SecretRef.Name)
			}
		}
	}
	if v := s.CephFS; v != nil {
		if c, first := one.open("cephfs"); first {
			x.requireSome(&c, "monitors", len(v.Monitors))
		}
	}
	if v := s.Flocker; v != nil {
		if c, first := one.open("flocker"); first {
			switch {
			case v.DatasetName == "" && v.DatasetUUID == "":
				x.required(&c, "one of datasetName and datasetUUID is required")
			case v.DatasetName != "" && v.DatasetUUID != "":
				x.invalid(&c, "resource", "datasetName and datasetUUID can not be specified simultaneously")
			}
			if strings.Contains(v.DatasetName, "/") {
				name := c.child("datasetName")
				x.invalid(&name, v.DatasetName, "must not contain '/'")
			}
		}
	}
}

func (x *examiner) requireSome(p *place, name string, n int) {
	if n == 0 {
		c := p.child(name)
		x.required(&c, "")
	}
}

func (x *examiner) channelVolumes(s *corev1.VolumeSource, one *choice) {
	if v := s.FC; v != nil {
		if c, first := one.open("fc"); first {
			x.fibreChannel(&c, v)
		}
	}
	if v := s.FlexVolume; v != nil {
		if c, first := one.open("flexVolume"); first {
			x.requireText(&c, "driver", v.Driver)
			for key := range v.Options {
				if prefix, _, found := strings.Cut(key, "/"); found && strings.HasSuffix("."+prefix, ".kubernetes.io") {
					options := c.child("options")
					k := options.keyed(key)
					x.invalid(&k, key, "may not use reserved namespace kubernetes.io or k8s.io")
				}
			}
		}
	}
}

func (x *examiner) fibreChannel(p *place, v *corev1.FCVolumeSource) {
	names, ids := len(v.TargetWWNs), len(v.WWIDs)
	if names == 0 && ids == 0 {
		c := p.child("targetWWNs")
		x.required(&c, "must specify either targetWWNs or wwids, but not both")
	}
	if names > 0 && ids > 0 {
		c := p.child("targetWWNs")
		x.invalid(&c, v.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")
	}
	if names == 0 {
		return
	}
	c := p.child("lun")
	switch {
	case v.Lun == nil:
		x.required(&c, "lun is required if targetWWNs is specified")
	case *v.Lun < 0 || *v.Lun > 255:
		x.invalid(&c, fmt.Sprint(*v.Lun), validation.InclusiveRangeError(0, 255))
	}
}

func (x *examiner) vendorVolumes(s *corev1.VolumeSource, one *choice) {
	if v := s.AzureFile; v != nil {
		if c, first := one.open("azureFile"); first {
			x.requireText(&c, "secretName", v.SecretName)
			x.requireText(&c, "shareName", v.ShareName)
		}
	}
	if v := s.VsphereVolume; v != nil {
		if c, first := one.open("vsphereVolume"); first {
			x.requireText(&c, "volumePath", v.VolumePath)
		}
	}
	if v := s.Quobyte; v != nil {
		if c, first := one.open("quobyte"); first {
			x.requireText(&c, "registry", v.Registry)
			x.requireText(&c, "volume", v.Volume)
		}
	}
	if v := s.PhotonPersistentDisk; v != nil {
		if c, first := one.open("photonPersistentDisk"); first {
			x.requireText(&c, "pdID", v.PdID)
		}
	}
	if v := s.PortworxVolume; v != nil {
		if c, first := one.open("portworxVolume"); first {
			x.requireText(&c, "volumeID", v.VolumeID)
		}
	}
	if v := s.AzureDisk; v != nil {
		if c, first := one.open("azureDisk"); first {
			x.requireText(&c, "diskName", v.DiskName)
			x.requireText(&c, "diskURI", v.DataDiskURI)
		}
	}
	if v := s.StorageOS; v != nil {
		if c, first := one.open("storageos"); first {
			x.requireText(&c, "volumeName", v.VolumeName)
		}
	}
}
