package storage

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace/millrace/internal/server/resource/check"
	"github.com/millrace/millrace/internal/server/resource/quote"
)

const (
	minTokenSeconds  = 600
	maxTokenSeconds  = 1 << 32
	minUpdateSeconds = 10
	maxNodeID        = 256
	maxErrorSize     = 1024
)

func checkDriver(d *storagev1.CSIDriver) field.ErrorList {
	return checkDriverSpec(&d.Spec, field.NewPath("spec"))
}

func checkDriverUpdate(d, old *storagev1.CSIDriver) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkDriverSpec(&d.Spec, path)
	errs = append(errs, check.Immutable(d.Spec.AttachRequired, old.Spec.AttachRequired, path.Child("attachedRequired"))...)
	return append(errs, check.Immutable(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, path.Child("volumeLifecycleModes"))...)
}

func checkDriverSpec(s *storagev1.CSIDriverSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := s.FSGroupPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("fsGroupPolicy"), storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	}
	errs = append(errs, checkTokens(s.TokenRequests, path.Child("tokenRequests"))...)
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, check.OneOf(m, path.Child("volumeLifecycleModes"), storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < minUpdateSeconds {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *n,
			fmt.Sprintf("must be greater than or equal to %d seconds", minUpdateSeconds)))
	}
	if s.ServiceAccountTokenInSecrets != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), *s.ServiceAccountTokenInSecrets, "may not be specified when tokenRequests is empty"))
	}
	return errs
}

func driverWarnings(d *storagev1.CSIDriver) []string {
	if len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

func checkTokens(all []storagev1.TokenRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, r := range all {
		at := path.Index(i)
		if seen[r.Audience] {
			errs = append(errs, field.Duplicate(at.Child("audience"), r.Audience))
			continue
		}
		seen[r.Audience] = true
		switch n := r.ExpirationSeconds; {
		case n == nil:
		case *n < minTokenSeconds:
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes"))
		case *n > maxTokenSeconds:
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *n, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

func checkNode(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range n.Spec.Drivers {
		d, at := &n.Spec.Drivers[i], field.NewPath("spec", "drivers").Index(i)
		errs = append(errs, check.DriverName(d.Name, at.Child("name"))...)
		errs = append(errs, checkNodeDriver(d, at)...)
		if names[d.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		names[d.Name] = true
	}
	return errs
}

func checkNodeDriver(d *storagev1.CSINodeDriver, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if d.NodeID == "" {
		errs = append(errs, field.Required(path.Child("nodeID"), ""))
	}
	if len(d.NodeID) > maxNodeID {
		errs = append(errs, field.Invalid(path.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID)))
	}
	if a := d.Allocatable; a != nil && a.Count != nil {
		errs = append(errs, check.NonNegative(int64(*a.Count), path.Child("allocatable", "count"))...)
	}
	for i, key := range d.TopologyKeys {
		if key == "" {
			errs = append(errs, field.Required(path, ""))
		}
		if slices.Contains(d.TopologyKeys[:i], key) {
			errs = append(errs, field.Duplicate(path, key))
		}
		errs = append(errs, check.Qualified(key, path)...)
	}
	return errs
}

// checkNodeUpdate allows drivers to be added and removed. Of an existing driver only the number of volumes may change.
func checkNodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	errs := checkNode(n)
	for i := range n.Spec.Drivers {
		now := n.Spec.Drivers[i]
		for _, was := range old.Spec.Drivers {
			if was.Name != now.Name {
				continue
			}
			was.Allocatable = now.Allocatable
			if !equality.Semantic.DeepEqual(was, now) {
				errs = append(errs, field.Invalid(field.NewPath("spec", "drivers"), quote.Of(now), validation.FieldImmutableErrorMsg))
			}
		}
	}
	return errs
}

func checkAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	path := field.NewPath("spec")
	errs := check.DriverName(a.Spec.Attacher, path.Child("attacher"))
	errs = append(errs, checkAttachmentSource(&a.Spec.Source, path.Child("source"))...)
	errs = append(errs, check.Subdomain(a.Spec.NodeName, path.Child("nodeName"))...)
	return append(errs, checkAttachmentStatus(&a.Status, field.NewPath("status"))...)
}

func checkAttachmentSource(s *storagev1.VolumeAttachmentSource, path *field.Path) field.ErrorList {
	const exactlyOne = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	name := s.PersistentVolumeName
	switch {
	case name == nil && s.InlineVolumeSpec == nil:
		return field.ErrorList{field.Required(path, exactlyOne)}
	case name != nil && s.InlineVolumeSpec != nil:
		return field.ErrorList{field.Forbidden(path, exactlyOne)}
	case name == nil:
		return checkInline(s.InlineVolumeSpec, path.Child("inlineVolumeSpec"))
	}
	var errs field.ErrorList
	path = path.Child("persistentVolumeName")
	if *name == "" {
		errs = append(errs, field.Required(path, "must specify non empty persistentVolumeName"))
	}
	return append(errs, check.Invalid(path, *name, validation.NameIsDNSSubdomain(*name, false))...)
}

func checkAttachmentStatus(s *storagev1.VolumeAttachmentStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range s.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(path.Child("attachmentMetadata"), "", maxParameterSize))
	}
	for _, e := range []struct {
		name string
		err  *storagev1.VolumeError
	}{{"attachError", s.AttachError}, {"detachError", s.DetachError}} {
		if e.err != nil && len(e.err.Message) > maxErrorSize {
			errs = append(errs, field.TooLong(path.Child(e.name, "message"), "", maxParameterSize))
		}
	}
	return errs
}

func checkAttachmentUpdate(a, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := checkAttachment(a)
	if !equality.Semantic.DeepEqual(a.Spec, old.Spec) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), quote.Of(a.Spec), "field is immutable"))
	}
	return errs
}
