// Package storage describes the kinds of the group storage.k8s.io.
package storage

import "github.com/millrace/millrace/internal/server/resource"

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind {
	return []*resource.Kind{
		CSIDrivers(), CSINodes(), CSIStorageCapacities(), StorageClasses(), VolumeAttachments(), VolumeAttributesClasses(),
	}
}
