package podspec

import (
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
)

const (
	badMode     = "must be a number between 0 and 0777 (octal), both inclusive"
	highestMode = 0o777

	highestDirectoryMode = 0o1777 // with the sticky bit
	oneVolumeType        = "may not specify more than 1 volume type"
)

func (x *examiner) everyVolume(p *place) {
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
		list.forget()
		v := &volumes[i]
		item := list.item(i)
		before := len(x.errs)
		x.volume(&item, v)
		name := item.child("name")
		if v.Name == "" {
			x.required(&name, "")
		} else {
			x.invalidAll(&name, v.Name, label(v.Name))
		}
		if names.has(v.Name) {
			x.duplicate(&name, v.Name)
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
	p := x.at(at)
	x.volume(&p, &corev1.Volume{VolumeSource: s})
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
func (x *examiner) volume(p *place, v *corev1.Volume) {
	one := &choice{findings: &x.findings, of: p, excess: oneVolumeType}
	s := &v.VolumeSource
	if s.EmptyDir != nil {
		one.n++
		if l := s.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			dir := p.child("emptyDir")
			c := dir.child("sizeLimit")
			x.forbidden(&c, "SizeLimit field must be a valid resource quantity")
		}
		if m := s.EmptyDir.Mode; m != nil && (*m < 0 || *m > highestDirectoryMode) {
			dir := p.child("emptyDir")
			c := dir.child("mode")
			x.invalid(&c, *m, "must be a number between 0 and 01777 (octal), both inclusive")
		}
	}
	if s.HostPath != nil {
		if c, first := one.open("hostPath"); first {
			x.hostPath(&c, s.HostPath)
		}
	}
	if s.GitRepo != nil {
		if c, first := one.open("gitRepo"); first {
			x.requireText(&c, "repository", s.GitRepo.Repository)
			d := c.child("directory")
			x.descendingPath(&d, s.GitRepo.Directory)
		}
	}
	x.disks(s, one)
	if s.Secret != nil {
		if c, first := one.open("secret"); first {
			x.requireText(&c, "secretName", s.Secret.SecretName)
			x.mode(&c, "defaultMode", s.Secret.DefaultMode)
			x.keysToPaths(&c, s.Secret.Items)
		}
	}
	x.networkVolumes(s, one)
	if s.PersistentVolumeClaim != nil {
		if c, first := one.open("persistentVolumeClaim"); first {
			x.requireText(&c, "claimName", s.PersistentVolumeClaim.ClaimName)
		}
	}
	x.clusterVolumes(s, one)
	if s.DownwardAPI != nil {
		if c, first := one.open("downwardAPI"); first {
			x.mode(&c, "defaultMode", s.DownwardAPI.DefaultMode)
			x.downwardFiles(&c, s.DownwardAPI.Items)
		}
	}
	x.channelVolumes(s, one)
	if s.ConfigMap != nil {
		if c, first := one.open("configMap"); first {
			x.requireText(&c, "name", s.ConfigMap.Name)
			x.mode(&c, "defaultMode", s.ConfigMap.DefaultMode)
			x.keysToPaths(&c, s.ConfigMap.Items)
		}
	}
	x.vendorVolumes(s, one)
	if s.Projected != nil {
		if c, first := one.open("projected"); first {
			x.projected(&c, s.Projected)
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
	of     *place
	excess string
	n      int
}

// open returns the place of a field that is set, and reports whether it is the first one.
func (o *choice) open(name string) (place, bool) {
	c := o.of.child(name)
	if o.n++; o.n > 1 {
		o.forbidden(&c, o.excess)
		return c, false
	}
	return c, true
}

func (x *examiner) hostPath(p *place, h *corev1.HostPathVolumeSource) {
	c := p.child("path")
	if h.Path == "" {
		x.required(&c, "")
		return
	}
	x.noBacksteps(&c, h.Path)
	if h.Type != nil {
		t := p.child("type")
		oneOf(&x.findings, &t, *h.Type, corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
			corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)
	}
}

func (x *examiner) mode(p *place, name string, mode *int32) {
	if mode != nil && (*mode < 0 || *mode > highestMode) {
		c := p.child(name)
		x.invalid(&c, *mode, badMode)
	}
}

func (x *examiner) keysToPaths(p *place, items []corev1.KeyToPath) {
	list := p.child("items")
	for i := range items {
		item := list.item(i)
		x.keyToPath(&item, &items[i])
	}
}

func (x *examiner) keyToPath(p *place, k *corev1.KeyToPath) {
	x.requireText(p, "key", k.Key)
	if x.requireText(p, "path", k.Path) {
		c := p.child("path")
		x.filePath(&c, k.Path)
	}
	x.mode(p, "mode", k.Mode)
}

// downwardFiles reports errors at the volume: Kubernetes does not say which file is invalid.
func (x *examiner) downwardFiles(p *place, items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		x.downwardFile(p, &items[i])
	}
}

func (x *examiner) downwardFile(p *place, file *corev1.DownwardAPIVolumeFile) {
	c := p.child("path")
	if x.requireText(p, "path", file.Path) {
		x.filePath(&c, file.Path)
	}
	switch {
	case file.FieldRef != nil:
		r := p.child("fieldRef")
		x.fieldRef(&r, file.FieldRef, fieldsForVolumes)
		if file.ResourceFieldRef != nil {
			x.invalid(p, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case file.ResourceFieldRef != nil:
		r := p.child("resourceFieldRef")
		x.resourceRef(&r, file.ResourceFieldRef, true)
	default:
		x.required(p, "one of fieldRef and resourceFieldRef is required")
	}
	x.mode(p, "mode", file.Mode)
}

func (x *examiner) lateVolumes(v *corev1.Volume, p *place, one *choice) {
	s := &v.VolumeSource
	if s.ScaleIO != nil {
		if c, first := one.open("scaleIO"); first {
			x.requireText(&c, "gateway", s.ScaleIO.Gateway)
			x.requireText(&c, "system", s.ScaleIO.System)
			x.requireText(&c, "volumeName", s.ScaleIO.VolumeName)
		}
	}
	if s.CSI != nil {
		if c, first := one.open("csi"); first {
			x.inlineCSI(&c, s.CSI)
		}
	}
	if s.Ephemeral != nil {
		if c, first := one.open("ephemeral"); first {
			x.ephemeralVolume(&c, s.Ephemeral)
		}
		if x.meta != nil && x.meta.Name != "" && v.Name != "" {
			claim := x.meta.Name + "-" + v.Name
			n := p.child("name")
			for _, m := range subdomain(claim) {
				x.invalid(&n, v.Name, fmt.Sprintf("PVC name %q: %v", claim, m))
			}
		}
	}
	if s.Image != nil {
		if c, first := one.open("image"); first {
			x.requireText(&c, "reference", s.Image.Reference)
			x.pullPolicy(&c, "pullPolicy", s.Image.PullPolicy)
		}
	}
}

func (x *examiner) inlineCSI(p *place, s *corev1.CSIVolumeSource) {
	driver := p.child("driver")
	x.errs = append(x.errs, check.DriverName(s.Driver, driver.path())...)
	if r := s.NodePublishSecretRef; r != nil {
		ref := p.child("nodePublishSecretRef")
		if x.requireText(&ref, "name", r.Name) {
			c := p.child("name")
			x.invalidAll(&c, r.Name, subdomain(r.Name))
		}
	}
}

func (x *examiner) absolutePath(p *place, name, target string) {
	x.requireText(p, name, target)
	if !path.IsAbs(target) {
		c := p.child(name)
		x.invalid(&c, target, "must be an absolute path")
	}
}
