package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/podspec"
)

// sourceCheck collects the errors in the sources of a volume, of which exactly one must be set.
type sourceCheck struct {
	path   *field.Path
	number int
	errs   field.ErrorList
}

// of validates a source if it is set and the first one.
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
	c.shared("hostPath", s.HostPath != nil, corev1.VolumeSource{HostPath: s.HostPath})
	c.shared("gcePersistentDisk", s.GCEPersistentDisk != nil, corev1.VolumeSource{GCEPersistentDisk: s.GCEPersistentDisk})
	c.shared("awsElasticBlockStore", s.AWSElasticBlockStore != nil, corev1.VolumeSource{AWSElasticBlockStore: s.AWSElasticBlockStore})
	c.of("glusterfs", s.Glusterfs != nil, func(at *field.Path) field.ErrorList { return checkGlusterfs(s.Glusterfs, at) })
	c.shared("flocker", s.Flocker != nil, corev1.VolumeSource{Flocker: s.Flocker})
	c.shared("nfs", s.NFS != nil, corev1.VolumeSource{NFS: s.NFS})
	c.of("rbd", s.RBD != nil, func(at *field.Path) field.ErrorList {
		return append(needSome(at, "monitors", s.RBD.CephMonitors), need(at, "image", s.RBD.RBDImage)...)
	})
	c.shared("quobyte", s.Quobyte != nil, corev1.VolumeSource{Quobyte: s.Quobyte})
	c.of("cephfs", s.CephFS != nil, func(at *field.Path) field.ErrorList { return needSome(at, "monitors", s.CephFS.Monitors) })
	c.of("iscsi", s.ISCSI != nil, func(at *field.Path) field.ErrorList { return checkISCSI(s.ISCSI, at) })
	c.of("cinder", s.Cinder != nil, func(at *field.Path) field.ErrorList {
		return append(need(at, "volumeID", s.Cinder.VolumeID), needSecret(at, s.Cinder.SecretRef)...)
	})
	c.shared("fc", s.FC != nil, corev1.VolumeSource{FC: s.FC})
	c.of("flexVolume", s.FlexVolume != nil, func(at *field.Path) field.ErrorList {
		flex := &corev1.FlexVolumeSource{Driver: s.FlexVolume.Driver, Options: s.FlexVolume.Options}
		return podspec.ValidateVolumeSource(corev1.VolumeSource{FlexVolume: flex}, c.path)
	})
	c.of("azureFile", s.AzureFile != nil, func(at *field.Path) field.ErrorList {
		errs := need(at, "secretName", s.AzureFile.SecretName, "shareName", s.AzureFile.ShareName)
		if n := s.AzureFile.SecretNamespace; n != nil {
			errs = append(errs, need(at, "secretNamespace", *n)...)
		}
		return errs
	})
	c.shared("vsphereVolume", s.VsphereVolume != nil, corev1.VolumeSource{VsphereVolume: s.VsphereVolume})
	c.shared("photonPersistentDisk", s.PhotonPersistentDisk != nil, corev1.VolumeSource{PhotonPersistentDisk: s.PhotonPersistentDisk})
	c.shared("portworxVolume", s.PortworxVolume != nil, corev1.VolumeSource{PortworxVolume: s.PortworxVolume})
	c.shared("azureDisk", s.AzureDisk != nil, corev1.VolumeSource{AzureDisk: s.AzureDisk})
	c.of("scaleIO", s.ScaleIO != nil, func(at *field.Path) field.ErrorList {
		return need(at, "gateway", s.ScaleIO.Gateway, "system", s.ScaleIO.System, "volumeName", s.ScaleIO.VolumeName)
	})
	c.of("local", s.Local != nil, func(at *field.Path) field.ErrorList {
		if s.Local.Path == "" {
			return field.ErrorList{field.Required(at.Child("path"), "")}
		}
		return noBacksteps(s.Local.Path, at.Child("path"))
	})
	c.of("storageos", s.StorageOS != nil, func(at *field.Path) field.ErrorList {
		errs := podspec.ValidateVolumeSource(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{
			VolumeName: s.StorageOS.VolumeName, VolumeNamespace: s.StorageOS.VolumeNamespace,
		}}, c.path)
		if r := s.StorageOS.SecretRef; r != nil {
			errs = append(errs, need(at.Child("secretRef"), "name", r.Name, "namespace", r.Namespace)...)
		}
		return errs
	})
	c.of("csi", s.CSI != nil, func(at *field.Path) field.ErrorList { return checkCSISource(s.CSI, at) })
	if c.number == 0 {
		c.errs = append(c.errs, field.Required(at, "must specify a volume type"))
	}
	return c.errs
}

// shared validates a source that volumes of pods have too.
func (c *sourceCheck) shared(name string, there bool, s corev1.VolumeSource) {
	c.of(name, there, func(*field.Path) field.ErrorList { return podspec.ValidateVolumeSource(s, c.path) })
}

func needSome(at *field.Path, name string, list []string) field.ErrorList {
	if len(list) == 0 {
		return field.ErrorList{field.Required(at.Child(name), "")}
	}
	return nil
}

// needSecret requires that a secret reference, if set, has a name and a namespace.
func needSecret(at *field.Path, r *corev1.SecretReference) field.ErrorList {
	if r == nil {
		return nil
	}
	return need(at.Child("secretRef"), "name", r.Name, "namespace", r.Namespace)
}

// need requires that none of the named values is empty.
func need(at *field.Path, namesAndValues ...string) field.ErrorList {
	var errs field.ErrorList
	for pair := range slices.Chunk(namesAndValues, 2) {
		if pair[1] == "" {
			errs = append(errs, field.Required(at.Child(pair[0]), ""))
		}
	}
	return errs
}

func noBacksteps(p string, at *field.Path) field.ErrorList {
	if backsteps(p) {
		return field.ErrorList{field.Invalid(at, p, "must not contain '..'")}
	}
	return nil
}

func checkGlusterfs(g *corev1.GlusterfsPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := need(at, "endpoints", g.EndpointsName, "path", g.Path)
	switch n := g.EndpointsNamespace; {
	case n == nil:
	case *n == "":
		errs = append(errs, field.Invalid(at.Child("endpointsNamespace"), *n, "if the endpointnamespace is set, it must be a valid namespace name"))
	default:
		errs = append(errs, check.Label(*n, at.Child("endpointsNamespace"))...)
	}
	return errs
}

func checkISCSI(i *corev1.ISCSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := need(at, "targetPortal", i.TargetPortal, "iqn", i.IQN)
	if i.IQN != "" && !podspec.IsISCSIName(i.IQN) {
		errs = append(errs, field.Invalid(at.Child("iqn"), i.IQN, "must be valid format"))
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
	if n := i.InitiatorName; n != nil && !podspec.IsISCSIName(*n) {
		errs = append(errs, field.Invalid(at.Child("initiatorname"), *n, "must be valid format"))
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
			ref := at.Child(secret.name)
			errs = append(errs, needName(ref.Child("name"), secret.ref.Name, check.Subdomain)...)
			errs = append(errs, needName(ref.Child("namespace"), secret.ref.Namespace, check.Label)...)
		}
	}
	return errs
}

func needName(at *field.Path, name string, sound func(string, *field.Path) field.ErrorList) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return sound(name, at)
}
