package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkClass(c *storagev1.StorageClass) field.ErrorList                          { return nil }
func checkClassUpdate(c, old *storagev1.StorageClass) field.ErrorList               { return nil }
func classWarnings(c *storagev1.StorageClass) []string                              { return nil }
func checkDriver(c *storagev1.CSIDriver) field.ErrorList                            { return nil }
func checkDriverUpdate(c, old *storagev1.CSIDriver) field.ErrorList                 { return nil }
func checkNode(c *storagev1.CSINode) field.ErrorList                                { return nil }
func checkNodeUpdate(c, old *storagev1.CSINode) field.ErrorList                     { return nil }
func checkCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList                 { return nil }
func checkCapacityUpdate(c, old *storagev1.CSIStorageCapacity) field.ErrorList      { return nil }
func checkAttachment(c *storagev1.VolumeAttachment) field.ErrorList                 { return nil }
func checkAttachmentUpdate(c, old *storagev1.VolumeAttachment) field.ErrorList      { return nil }
func checkAttributes(c *storagev1.VolumeAttributesClass) field.ErrorList            { return nil }
func checkAttributesUpdate(c, old *storagev1.VolumeAttributesClass) field.ErrorList { return nil }
