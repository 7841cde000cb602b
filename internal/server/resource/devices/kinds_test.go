package devices

import (
	"strings"
	"testing"

	v1 "k8s.io/api/resource/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }

func body(kind, spec string) string {
	return `{"apiVersion":"resource.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"o"},"spec":{` + spec + `}}`
}

func claim(devices string) string {
	return strings.Replace(body("ResourceClaim", `"devices":{`+devices+`}`), `"name":"o"`, `"name":"o","namespace":"default"`, 1)
}

const good = `"requests":[{"name":"r","exactly":{"deviceClassName":"c"}}]`

func TestClaimsAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "good", Body: claim(good)},
		{Name: "no kind of request", Body: claim(`"requests":[{"name":"r"}]`), Want: []string{
			"FieldValueRequired spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"}},
		{Name: "no count", Body: claim(`"requests":[{"name":"r","exactly":{"deviceClassName":"c","count":-1}}]`), Want: []string{
			"FieldValueInvalid spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"}},
		{Name: "unknown request", Body: claim(good + `,"constraints":[{"requests":["x"],"matchAttribute":"a.example/b"}]`), Want: []string{
			`FieldValueInvalid spec.devices.constraints[0].requests[0]: Invalid value: "x": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`}},
		{Name: "expression", Body: claim(`"requests":[{"name":"r","exactly":{"deviceClassName":"c","selectors":[{"cel":{"expression":"device.driver == \"d\""}}]}}]`)},
		{Name: "another", Body: claim(good), Change: `{"spec":{"devices":{"requests":[{"name":"s","exactly":{"deviceClassName":"c"}}]}}}`, Want: []string{
			"FieldValueInvalid spec: Invalid value: null: field is immutable"}},
		{Name: "used without devices", Body: claim(good), View: "status", Change: `{"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}`, Want: []string{
			"FieldValueForbidden status.reservedFor: Forbidden: may not be specified when `allocated` is not set"}},
	})
}

func TestSlicesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	slice := func(rest string) string {
		return body("ResourceSlice", `"driver":"d.example","pool":{"name":"p","resourceSliceCount":1},`+rest)
	}
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "good", Body: slice(`"nodeName":"n","devices":[{"name":"a","attributes":{"model":{"string":"x"}},"capacity":{"memory":{"value":"1Gi"}}}]`)},
		{Name: "nowhere", Body: slice(`"devices":[]`), Want: []string{
			"FieldValueRequired spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"}},
		{Name: "twice", Body: slice(`"nodeName":"n","allNodes":true`), Want: []string{
			"FieldValueInvalid spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set"}},
		{Name: "version", Body: slice(`"allNodes":true,"devices":[{"name":"a","attributes":{"v":{"version":"1"}}}]`), Want: []string{
			`FieldValueInvalid spec.devices[0].attributes[v].version: Invalid value: "1": must be a string compatible with semver.org spec 2.0.0`}},
		{Name: "policy", Body: slice(`"allNodes":true,"devices":[{"name":"a","allowMultipleAllocations":true,"capacity":{"m":{"value":"10","requestPolicy":{"default":"3","validRange":{"min":"2","step":"2"}}}}}]`), Want: []string{
			`FieldValueInvalid spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: "3": value is not a multiple of a given step (2) from (2)`}},
	})
}

func TestStatusOfDevicesThatAreGivenBackVanishes(t *testing.T) {
	old := resourcetest.Made(t, Kinds(), claim(good)).(*v1.ResourceClaim)
	old.Status.Allocation = &v1.AllocationResult{Devices: v1.DeviceAllocationResult{Results: []v1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "x"}}}}
	old.Status.Devices = []v1.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "x"}}
	now := old.DeepCopy()
	now.Status.Allocation = nil
	kind := Claims()
	if errs := resourcetest.Update(kind, kind.Views["status"], now, old); len(errs) > 0 || now.Status.Devices != nil {
		t.Errorf("devices %v, refused with %v", now.Status.Devices, errs)
	}
}
