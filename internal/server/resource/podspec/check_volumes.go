package podspec

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/demand"
	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	badMode     = "must be a number between 0 and 0777 (octal), both inclusive"
	highestMode = 0o777

	highestDirectoryMode = 0o1777 // with the sticky bit
	oneVolumeType        = "may not specify more than 1 volume type"
)

func (x *examiner) everyVolume(p fieldPath) {
	volumes := x.spec.Volumes
	if x.opt.AllVolumes != nil {
		volumes = x.opt.AllVolumes
	}
	if len(volumes) == 0 {
		return
	}
	var names seen[string]
	x.volumes = slices.Grow(x.volumes, len(volumes))
	list := p.child("volumes")
	for i := range volumes {
		v := &volumes[i]
		item := list.item(i)
		before := len(x.errs)
		x.volume(item, v)
		name := item.child("name")
		if v.Name == "" {
			x.required(name, "")
		} else {
			x.invalidAll(name, v.Name, label(v.Name))
		}
		if names.has(v.Name) {
			x.duplicate(name, v.Name)
		}
		if len(x.errs) == before {
			names.add(v.Name)
			x.volumes = append(x.volumes, v)
		}
	}
}

// ValidateVolumeSource validates one of the sources that pods' volumes and persistent volumes have in common.
func ValidateVolumeSource(s corev1.VolumeSource, at *field.Path) field.ErrorList {
	x := examiner{spec: &corev1.PodSpec{}}
	p := x.from(at)
	x.volume(p, &corev1.Volume{VolumeSource: s})
	return x.errs
}

func (x *examiner) usable(name string) *corev1.Volume {
	for _, v := range x.volumes {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// volume requires exactly one source. The order decides which of two is reported as one too many.
func (x *examiner) volume(p fieldPath, v *corev1.Volume) {
	one := &choice{findings: &x.findings, of: &p, excess: oneVolumeType}
	s := &v.VolumeSource
	if s.EmptyDir != nil {
		one.n++
		if l := s.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			dir := p.child("emptyDir")
			x.forbidden(dir.child("sizeLimit"), "SizeLimit field must be a valid resource quantity")
		}
		if m := s.EmptyDir.Mode; m != nil && (*m < 0 || *m > highestDirectoryMode) {
			dir := p.child("emptyDir")
			x.invalid(dir.child("mode"), *m, "must be a number between 0 and 01777 (octal), both inclusive")
		}
	}
	if s.HostPath != nil {
		if c, first := one.open("hostPath"); first {
			x.hostPath(c, s.HostPath)
		}
	}
	if s.GitRepo != nil {
		if c, first := one.open("gitRepo"); first {
			x.requireText(c, "repository", s.GitRepo.Repository)
			x.descendingPath(c.child("directory"), s.GitRepo.Directory)
		}
	}
	x.disks(s, one)
	if s.Secret != nil {
		if c, first := one.open("secret"); first {
			x.requireText(c, "secretName", s.Secret.SecretName)
			x.mode(c, "defaultMode", s.Secret.DefaultMode)
			x.keysToPaths(c, s.Secret.Items)
		}
	}
	x.networkVolumes(s, one)
	if s.PersistentVolumeClaim != nil {
		if c, first := one.open("persistentVolumeClaim"); first {
			x.requireText(c, "claimName", s.PersistentVolumeClaim.ClaimName)
		}
	}
	x.clusterVolumes(s, one)
	if s.DownwardAPI != nil {
		if c, first := one.open("downwardAPI"); first {
			x.mode(c, "defaultMode", s.DownwardAPI.DefaultMode)
			x.downwardFiles(c, s.DownwardAPI.Items)
		}
	}
	x.channelVolumes(s, one)
	if s.ConfigMap != nil {
		if c, first := one.open("configMap"); first {
			x.requireText(c, "name", s.ConfigMap.Name)
			x.mode(c, "defaultMode", s.ConfigMap.DefaultMode)
			x.keysToPaths(c, s.ConfigMap.Items)
		}
	}
	x.vendorVolumes(s, one)
	if s.Projected != nil {
		if c, first := one.open("projected"); first {
			x.projected(c, s.Projected)
		}
	}
	x.lateVolumes(v, p, one)
	if one.n == 0 {
		x.required(p, "must specify a volume type")
	}
}

// choice is a set of fields of which exactly one must be set.
type choice struct {
	*findings
	of     *fieldPath
	excess string
	n      int
}

// open returns the place of a field that is set, and reports whether it is the first one.
func (o *choice) open(name string) (fieldPath, bool) {
	c := o.of.child(name)
	if o.n++; o.n > 1 {
		o.forbidden(c, o.excess)
		return c, false
	}
	return c, true
}

func (x *examiner) hostPath(p fieldPath, h *corev1.HostPathVolumeSource) {
	c := p.child("path")
	if h.Path == "" {
		x.required(c, "")
		return
	}
	x.noBacksteps(c, h.Path)
	if h.Type != nil {
		oneOf(&x.findings, p.child("type"), *h.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (x *examiner) mode(p fieldPath, name string, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > highestMode) {
		x.invalid(p.child(name), *mode, badMode)
	}
}

func (x *examiner) keysToPaths(p fieldPath, items []corev1.KeyToPath) {
	list := p.child("items")
	for i := range items {
		x.keyToPath(list.item(i), &items[i])
	}
}

func (x *examiner) keyToPath(p fieldPath, k *corev1.KeyToPath) {
	x.requireText(p, "key", k.Key)
	if x.requireText(p, "path", k.Path) {
		x.filePath(p.child("path"), k.Path)
	}
	x.mode(p, "mode", k.Mode)
}

// downwardFiles reports errors at the volume: Kubernetes does not say which file is invalid.
func (x *examiner) downwardFiles(p fieldPath, items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		x.downwardFile(p, &items[i])
	}
}

func (x *examiner) downwardFile(p fieldPath, file *corev1.DownwardAPIVolumeFile) {
	if x.requireText(p, "path", file.Path) {
		x.filePath(p.child("path"), file.Path)
	}
	switch {
	case file.FieldRef != nil:
		x.fieldRef(p.child("fieldRef"), file.FieldRef, fieldsForVolumes)
		if file.ResourceFieldRef != nil {
			x.invalid(p, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case file.ResourceFieldRef != nil:
		x.resourceRef(p.child("resourceFieldRef"), file.ResourceFieldRef, true)
	default:
		x.required(p, "one of fieldRef and resourceFieldRef is required")
	}
	x.mode(p, "mode", file.Mode)
}

func (x *examiner) lateVolumes(v *corev1.Volume, p fieldPath, one *choice) {
	s := &v.VolumeSource
	if s.ScaleIO != nil {
		if c, first := one.open("scaleIO"); first {
			x.requireText(c, "gateway", s.ScaleIO.Gateway)
			x.requireText(c, "system", s.ScaleIO.System)
			x.requireText(c, "volumeName", s.ScaleIO.VolumeName)
		}
	}
	if s.CSI != nil {
		if c, first := one.open("csi"); first {
			x.inlineCSI(c, s.CSI)
		}
	}
	if s.Ephemeral != nil {
		if c, first := one.open("ephemeral"); first {
			x.ephemeralVolume(c, s.Ephemeral)
		}
		if x.meta != nil && x.meta.Name != "" && v.Name != "" {
			claim := demand.EphemeralClaim(x.meta.Name, v.Name)
			for _, m := range subdomain(claim) {
				x.invalid(p.child("name"), v.Name, fmt.Sprintf("PVC name %q: %v", claim, m))
			}
		}
	}
	if s.Image != nil {
		if c, first := one.open("image"); first {
			x.requireText(c, "reference", s.Image.Reference)
			x.pullPolicy(c, "pullPolicy", s.Image.PullPolicy)
		}
	}
}

func (x *examiner) inlineCSI(p fieldPath, s *corev1.CSIVolumeSource) {
	x.errs = append(x.errs, check.DriverName(s.Driver, x.path(p.child("driver")))...)
	if r := s.NodePublishSecretRef; r != nil {
		if x.requireText(p.child("nodePublishSecretRef"), "name", r.Name) {
			x.invalidAll(p.child("name"), r.Name, subdomain(r.Name))
		}
	}
}

func (x *examiner) absolutePath(p fieldPath, name, target string) {
	x.requireText(p, name, target)
	if !path.IsAbs(target) {
		x.invalid(p.child(name), target, "must be an absolute path")
	}
}
