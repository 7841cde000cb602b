package core

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/resource/check"
)

// sourceCheck collects what is wrong with the sources of a volume, of which there must be exactly one.
type sourceCheck struct {
	path   *field.Path
	number int
	errs   field.ErrorList
}

// of checks a source if it is there and the first one.
func (c *sourceCheck) of(name string, there bool, detail func(at *field.Path) field.ErrorList) {
	if !there {
		return
	}
	if c.number++; c.number > 1 {
		c.errs = append(c.errs, field.Forbidden(c.path.Child(name), "may not specify more than 1 volume type"))
		return
	}
	c.errs = append(c.errs, detail(c.path.Child(name))...)
}

func checkOneSource(s *corev1.PersistentVolumeSource, at *field.Path) field.ErrorList {
	c := sourceCheck{path: at}
	c.of("hostPath", s.HostPath != nil, func(at *field.Path) field.ErrorList { return checkHostPath(s.HostPath, at) })
	c.of("gcePersistentDisk", s.GCEPersistentDisk != nil, func(at *field.Path) field.ErrorList {
		g := s.GCEPersistentDisk
		return append(need(at, "pdName", g.PDName), partition(g.Partition, at)...)
	})
	c.of("awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(at *field.Path) field.ErrorList {
		a := s.AWSElasticBlockStore
		return append(need(at, "volumeID", a.VolumeID), partition(a.Partition, at)...)
	})
	c.of("glusterfs", s.Glusterfs != nil, func(at *field.Path) field.ErrorList {
		return need(at, "endpoints", s.Glusterfs.EndpointsName, "path", s.Glusterfs.Path)
	})
	c.of("flocker", s.Flocker != nil, func(at *field.Path) field.ErrorList { return checkFlocker(s.Flocker, at) })
	c.of("nfs", s.NFS != nil, func(at *field.Path) field.ErrorList {
		errs := need(at, "server", s.NFS.Server, "path", s.NFS.Path)
		if s.NFS.Path != "" && !path.IsAbs(s.NFS.Path) {
			errs = append(errs, field.Invalid(at.Child("path"), s.NFS.Path, "must be an absolute path"))
		}
		return errs
	})
	c.of("rbd", s.RBD != nil, func(at *field.Path) field.ErrorList {
		var errs field.ErrorList
		if len(s.RBD.CephMonitors) == 0 {
			errs = append(errs, field.Required(at.Child("monitors"), ""))
		}
		return append(errs, need(at, "image", s.RBD.RBDImage)...)
	})
	c.of("quobyte", s.Quobyte != nil, func(at *field.Path) field.ErrorList {
		return need(at, "registry", s.Quobyte.Registry, "volume", s.Quobyte.Volume)
	})
	c.of("cephFS", s.CephFS != nil, func(at *field.Path) field.ErrorList {
		if len(s.CephFS.Monitors) == 0 {
			return field.ErrorList{field.Required(at.Child("monitors"), "")}
		}
		return nil
	})
	c.of("iscsi", s.ISCSI != nil, func(at *field.Path) field.ErrorList { return checkISCSI(s.ISCSI, at) })
	c.of("cinder", s.Cinder != nil, func(at *field.Path) field.ErrorList { return need(at, "volumeID", s.Cinder.VolumeID) })
	c.of("fc", s.FC != nil, func(at *field.Path) field.ErrorList { return checkFC(s.FC, at) })
	c.of("flexVolume", s.FlexVolume != nil, func(at *field.Path) field.ErrorList { return need(at, "driver", s.FlexVolume.Driver) })
	c.of("azureFile", s.AzureFile != nil, func(at *field.Path) field.ErrorList {
		return need(at, "secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName)
	})
	c.of("vsphereVolume", s.VsphereVolume != nil, func(at *field.Path) field.ErrorList { return need(at, "volumePath", s.VsphereVolume.VolumePath) })
	c.of("photonPersistentDisk", s.PhotonPersistentDisk != nil, func(at *field.Path) field.ErrorList { return need(at, "pdID", s.PhotonPersistentDisk.PdID) })
	c.of("portworxVolume", s.PortworxVolume != nil, func(at *field.Path) field.ErrorList { return need(at, "volumeID", s.PortworxVolume.VolumeID) })
	c.of("azureDisk", s.AzureDisk != nil, func(at *field.Path) field.ErrorList { return checkAzureDisk(s.AzureDisk, at) })
	c.of("scaleIO", s.ScaleIO != nil, func(at *field.Path) field.ErrorList {
		return need(at, "gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System, "volumeName", s.ScaleIO.VolumeName)
	})
	c.of("local", s.Local != nil, func(at *field.Path) field.ErrorList {
		if s.Local.Path == "" {
			return field.ErrorList{field.Required(at.Child("path"), "")}
		}
		return noBacksteps(s.Local.Path, at.Child("path"))
	})
	c.of("storageos", s.StorageOS != nil, func(*field.Path) field.ErrorList { return nil })
	c.of("csi", s.CSI != nil, func(at *field.Path) field.ErrorList { return checkCSISource(s.CSI, at) })
	if c.number == 0 {
		c.errs = append(c.errs, field.Required(at, "must specify a volume type"))
	}
	return c.errs
}

// need wants each of some named texts to be there.
func need(at *field.Path, namesAndValues ...string) field.ErrorList {
	var errs field.ErrorList
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] == "" {
			errs = append(errs, field.Required(at.Child(pair[0]), ""))
		}
	}
	return errs
}

func partition(n int32, at *field.Path) field.ErrorList {
	if n >= 0 && n <= 255 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("partition"), n, validation.InclusiveRangeError(0, 255))}
}

func noBacksteps(p string, at *field.Path) field.ErrorList {
	if backsteps(p) {
		return field.ErrorList{field.Invalid(at, p, "must not contain '..'")}
	}
	return nil
}

var hostPathTypes = []corev1.HostPathType{
	corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate,
	corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
}

func checkHostPath(h *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := noBacksteps(h.Path, at.Child("path"))
	if h.Type != nil {
		errs = append(errs, check.OneOf(*h.Type, at.Child("type"), hostPathTypes...)...)
	}
	return errs
}

func checkFlocker(f *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
	switch {
	case f.DatasetName == "" && f.DatasetUUID == "":
		return field.ErrorList{field.Required(at, "one of datasetName and datasetUUID is required")}
	case f.DatasetName != "" && f.DatasetUUID != "":
		return field.ErrorList{field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously")}
	case strings.Contains(f.DatasetName, "/"):
		return field.ErrorList{field.Invalid(at.Child("datasetName"), f.DatasetName, "must not contain '/'")}
	}
	return nil
}

func checkISCSI(i *corev1.ISCSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := need(at, "targetPortal", i.TargetPortal, "iqn", i.IQN)
	named := strings.HasPrefix(i.IQN, "iqn") || strings.HasPrefix(i.IQN, "eui") || strings.HasPrefix(i.IQN, "naa")
	if i.IQN != "" && !named {
		errs = append(errs, field.Invalid(at.Child("iqn"), i.IQN, "must be valid format starting with iqn, eui, or naa"))
	}
	if i.Lun < 0 || i.Lun > 255 {
		errs = append(errs, field.Invalid(at.Child("lun"), i.Lun, validation.InclusiveRangeError(0, 255)))
	}
	if (i.DiscoveryCHAPAuth || i.SessionCHAPAuth) && i.SecretRef == nil {
		errs = append(errs, field.Required(at.Child("secretRef"), ""))
	}
	if i.SecretRef != nil && i.SecretRef.Name == "" {
		errs = append(errs, field.Required(at.Child("secretRef", "name"), ""))
	}
	return errs
}

func checkFC(f *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	switch {
	case len(f.TargetWWNs) == 0 && len(f.WWIDs) == 0:
		return field.ErrorList{field.Required(at.Child("targetWWNs"), "must specify either targetWWNs or wwids, but not both")}
	case len(f.TargetWWNs) > 0 && len(f.WWIDs) > 0:
		return field.ErrorList{field.Invalid(at.Child("targetWWNs"), f.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously")}
	case len(f.WWIDs) > 0:
		return nil
	case f.Lun == nil:
		return field.ErrorList{field.Required(at.Child("lun"), "lun is required if targetWWNs is specified")}
	case *f.Lun < 0 || *f.Lun > 255:
		return field.ErrorList{field.Invalid(at.Child("lun"), f.Lun, validation.InclusiveRangeError(0, 255))}
	}
	return nil
}

func checkAzureDisk(a *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	errs := need(at, "diskName", a.DiskName, "diskURI", a.DataDiskURI)
	if a.CachingMode != nil {
		errs = append(errs, check.OneOf(*a.CachingMode, at.Child("cachingMode"), corev1.AzureDataDiskCachingNone,
			corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if a.Kind != nil {
		errs = append(errs, check.OneOf(*a.Kind, at.Child("kind"), corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)...)
	}
	return errs
}

func checkCSISource(c *corev1.CSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := check.DriverName(c.Driver, at.Child("driver"))
	errs = append(errs, need(at, "volumeHandle", c.VolumeHandle)...)
	for _, secret := range []struct {
		name string
		ref  *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", c.ControllerPublishSecretRef}, {"controllerExpandSecretRef", c.ControllerExpandSecretRef},
		{"nodePublishSecretRef", c.NodePublishSecretRef}, {"nodeExpandSecretRef", c.NodeExpandSecretRef},
	} {
		if secret.ref != nil {
			errs = append(errs, need(at.Child(secret.name), "name", secret.ref.Name, "namespace", secret.ref.Namespace)...)
		}
	}
	return errs
}
