package discovery

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(rest string) string {
	return `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"o","namespace":"n"},` + rest + `}`
}

func TestEndpointSlicesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "no type", Body: body(`"endpoints":[]`), Want: []string{"FieldValueRequired addressType: Required value"}},
		{Name: "type", Body: body(`"addressType":"MAC","endpoints":[]`), Want: []string{
			`FieldValueNotSupported addressType: Unsupported value: "MAC": supported values: "FQDN", "IPv4", "IPv6"`}},
		{Name: "type changes", Body: body(`"addressType":"IPv4","endpoints":[]`), Change: `{"addressType":"IPv6"}`, Want: []string{
			`FieldValueInvalid addressType: Invalid value: "IPv6": field is immutable`}},
		{Name: "no addresses", Body: body(`"addressType":"IPv4","endpoints":[{"addresses":[]}]`), Want: []string{
			"FieldValueRequired endpoints[0].addresses: Required value: must contain at least 1 address"}},
		{Name: "address of the other family", Body: body(`"addressType":"IPv4","endpoints":[{"addresses":["fd00::1"]}]`), Want: []string{
			`FieldValueInvalid endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address`}},
		{Name: "loopback", Body: body(`"addressType":"IPv4","endpoints":[{"addresses":["127.0.0.1"]}]`), Want: []string{
			`FieldValueInvalid endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{Name: "zone twice", Body: body(`"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.1"],"hints":{"forZones":[{"name":"a"},{"name":"a"}]}}]`), Want: []string{
			`FieldValueDuplicate endpoints[0].hints.forZones[1].name: Duplicate value: "a"`}},
		{Name: "port names", Body: body(`"addressType":"IPv4","endpoints":[],"ports":[{"port":80},{"port":81},{"name":"UP","protocol":"X"}]`), Want: []string{
			`FieldValueDuplicate ports[1].name: Duplicate value: ""`,
			`FieldValueInvalid ports[2].name: Invalid value: "UP": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			`FieldValueNotSupported ports[2].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`}},
	})
}

func TestGenerationCountsContentAndLabels(t *testing.T) {
	kind := EndpointSlices()
	old := resourcetest.Made(t, Kinds(), body(`"addressType":"IPv4","endpoints":[{"addresses":["192.0.2.1"]}]`)).(*discoveryv1.EndpointSlice)
	for change, want := range map[string]int64{
		`{"metadata":{"annotations":{"a":"b"}}}`: 1,
		`{"metadata":{"labels":{"a":"b"}}}`:      2,
		`{"endpoints":[]}`:                       2,
	} {
		now := resourcetest.Changed(t, kind.Faces[0], old, change)
		if errs := resourcetest.Update(kind, kind.Main, now, old); len(errs) > 0 || now.GetGeneration() != want {
			t.Errorf("%s: generation %d, want %d (%v)", change, now.GetGeneration(), want, errs)
		}
	}
}
