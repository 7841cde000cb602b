package storage

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(kind, rest string) string {
	meta := `"name":"o.example"`
	if kind == "CSIStorageCapacity" {
		meta += `,"namespace":"n"`
	}
	return `{"apiVersion":"storage.k8s.io/v1","kind":"` + kind + `","metadata":{` + meta + `},` + rest + `}`
}

func TestTheHealthThatAnObjectHasMayChange(t *testing.T) {
	health := func(c ...storagev1.StorageHealthCondition) *storagev1.CSINode {
		return &storagev1.CSINode{Status: storagev1.CSINodeStatus{StorageHealth: []storagev1.StorageHealth{{Name: "d.example", HealthConditions: c}}}}
	}
	mode, volume := corev1.PersistentVolumeAccessMode("RW"), corev1.PersistentVolumeMode("V")
	n := health(storagev1.StorageHealthCondition{Status: "Bad", Message: strings.Repeat("x", 1025), AccessMode: &mode, VolumeMode: &volume})
	dropHealth(n, health())
	want := []string{
		`FieldValueNotSupported status.storageHealth[0].healthConditions[0].status: Unsupported value: "Bad": supported values: "StorageDegraded", "StorageUnreachable"`,
		"FieldValueRequired status.storageHealth[0].healthConditions[0].reason: Required value",
		"FieldValueTooLong status.storageHealth[0].healthConditions[0].message: Too long: may not be more than 1024 bytes",
		`FieldValueNotSupported status.storageHealth[0].healthConditions[0].accessMode: Unsupported value: "RW": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
		`FieldValueNotSupported status.storageHealth[0].healthConditions[0].volumeMode: Unsupported value: "V": supported values: "Filesystem", "Block"`,
	}
	if got := resourcetest.Causes(checkHealth(n)); !slices.Equal(got, want) {
		t.Errorf("want %q\ngot %q", want, got)
	}
	good := health(storagev1.StorageHealthCondition{Status: storagev1.StorageDegraded, Reason: "SlowDisk"})
	if errs := checkHealth(good); len(errs) > 0 {
		t.Error(errs)
	}
	if dropHealth(good, &storagev1.CSINode{}); len(good.Status.StorageHealth) > 0 {
		t.Error("health of storage was added, though its feature is off")
	}
}

func TestStorageIsRefusedInTheWordsOfKubernetes(t *testing.T) {
	class := body("StorageClass", `"provisioner":"p.example/x","parameters":{"a":"b"}`)
	attachment := body("VolumeAttachment", `"spec":{"attacher":"a.example","nodeName":"n","source":{"persistentVolumeName":"v"}}`)
	node := body("CSINode", `"spec":{"drivers":[{"name":"d.example","nodeID":"i"}]}`)
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "no provisioner", Body: body("StorageClass", `"parameters":{}`), Want: []string{"FieldValueRequired provisioner: Required value"}},
		{Name: "recycling class", Body: body("StorageClass", `"provisioner":"p","reclaimPolicy":"Recycle"`), Want: []string{
			`FieldValueNotSupported reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`}},
		{Name: "binding mode", Body: body("StorageClass", `"provisioner":"p","volumeBindingMode":"Later"`), Want: []string{
			`FieldValueNotSupported volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`}},
		{Name: "topology twice", Body: body("StorageClass", `"provisioner":"p","allowedTopologies":[{"matchLabelExpressions":[{"key":"z","values":["a","a"]}]}]`), Want: []string{
			`FieldValueDuplicate allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"`}},
		{Name: "parameters change", Body: class, Change: `{"parameters":{"a":"c"}}`, Want: []string{
			`FieldValueInvalid parameters: Invalid value: {"a":"c"}: field is immutable`}},
		{Name: "expansion may change", Body: class, Change: `{"allowVolumeExpansion":true}`},
		{Name: "no attributes", Body: body("VolumeAttributesClass", `"driverName":"d.example"`), Want: []string{
			"FieldValueRequired parameters: Required value: must contain at least one key/value pair"}},
		{Name: "short tokens", Body: body("CSIDriver", `"spec":{"tokenRequests":[{"audience":"a","expirationSeconds":10},{"audience":"a"}]}`), Want: []string{
			"FieldValueInvalid spec.tokenRequests[0].expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes",
			`FieldValueDuplicate spec.tokenRequests[1].audience: Duplicate value: "a"`}},
		{Name: "attaching changes", Body: body("CSIDriver", `"spec":{}`), Change: `{"spec":{"attachRequired":false}}`, Want: []string{
			"FieldValueInvalid spec.attachedRequired: Invalid value: false: field is immutable"}},
		{Name: "node twice", Body: body("CSINode", `"spec":{"drivers":[{"name":"d","nodeID":"i"},{"name":"d","nodeID":""}]}`), Want: []string{
			"FieldValueRequired spec.drivers[1].nodeID: Required value", `FieldValueDuplicate spec.drivers[1].name: Duplicate value: "d"`}},
		{Name: "drivers come", Body: node, Change: `{"spec":{"drivers":[{"name":"e.example","nodeID":"i"}]}}`},
		{Name: "no health of storage", Body: node, View: "status", Change: `{"status":{"storageHealth":[{"name":""}]}}`},
		{Name: "attachment of nothing", Body: body("VolumeAttachment", `"spec":{"attacher":"","nodeName":"n","source":{}}`), Want: []string{
			"FieldValueRequired spec.attacher: Required value",
			"FieldValueRequired spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"}},
		{Name: "attachment moves", Body: attachment, Change: `{"spec":{"nodeName":"m"}}`, Want: []string{
			`FieldValueInvalid spec: Invalid value: {"Attacher":"a.example","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"m"}: field is immutable`}},
		{Name: "attached", Body: attachment, View: "status", Change: `{"status":{"attached":true}}`},
		{Name: "error too long", Body: attachment, View: "status", Change: `{"status":{"attachError":{"message":"` + strings.Repeat("x", 1025) + `"}}}`, Want: []string{
			"FieldValueTooLong status.attachError.message: Too long: may not be more than 262144 bytes"}},
		{Name: "negative capacity", Body: body("CSIStorageCapacity", `"storageClassName":"c","capacity":"-1"`), Want: []string{
			`FieldValueInvalid capacity: Invalid value: "-1": must be greater than or equal to 0`}},
		{Name: "capacity of another class", Body: body("CSIStorageCapacity", `"storageClassName":"c"`), Change: `{"storageClassName":"d"}`, Want: []string{
			`FieldValueInvalid storageClassName: Invalid value: "d": field is immutable`}},
	})
}
