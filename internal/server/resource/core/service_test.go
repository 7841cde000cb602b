package core

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func serviceBody(spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"n"},"spec":{%s}}`, spec)
}

const port80 = `"ports":[{"port":80}]`

func TestServicesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "plain", Body: serviceBody(port80)},
		{Name: "headless without ports", Body: serviceBody(`"clusterIP":"None"`)},
		{Name: "duplicate port", Body: serviceBody(`"ports":[{"name":"a","port":80},{"name":"b","port":80}]`), Want: []string{
			`FieldValueDuplicate spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}`}},
		{Name: "same port, other protocol", Body: serviceBody(`"ports":[{"name":"a","port":80},{"name":"b","port":80,"protocol":"UDP"}]`)},
		{Name: "duplicate node port", Body: serviceBody(`"type":"NodePort","ports":[{"name":"a","port":80,"nodePort":30000},{"name":"b","port":81,"nodePort":30000}]`), Want: []string{
			"FieldValueDuplicate spec.ports[1].nodePort: Duplicate value: 30000"}},
		{Name: "node port of a cluster IP", Body: serviceBody(`"ports":[{"port":80,"nodePort":30000}]`), Want: []string{
			"FieldValueForbidden spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
		{Name: "headless balancer", Body: serviceBody(`"type":"LoadBalancer","clusterIP":"None",` + port80), Want: []string{
			`FieldValueInvalid spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for LoadBalancer services`}},
		{Name: "kubelet port", Body: serviceBody(`"type":"LoadBalancer","ports":[{"port":10250}]`), Want: []string{
			"FieldValueInvalid spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"}},
		{Name: "type", Body: serviceBody(`"type":"Other",` + port80), Want: []string{
			`FieldValueNotSupported spec.type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		{Name: "external traffic policy", Body: serviceBody(`"externalTrafficPolicy":"Local",` + port80), Want: []string{
			`FieldValueInvalid spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		{Name: "internal traffic policy", Body: serviceBody(`"internalTrafficPolicy":"Near",` + port80), Want: []string{
			`FieldValueNotSupported spec.internalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"`}},
		{Name: "traffic distribution", Body: serviceBody(`"trafficDistribution":"Near",` + port80), Want: []string{
			`FieldValueNotSupported spec.trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`}},
		{Name: "affinity too long", Body: serviceBody(`"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":90000}},` + port80), Want: []string{
			"FieldValueInvalid spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less than 86400"}},
		{Name: "two families twice", Body: serviceBody(`"ipFamilies":["IPv4","IPv4"],` + port80), Want: []string{
			`FieldValueDuplicate spec.ipFamilies[1]: Duplicate value: "IPv4"`}},
		{Name: "address of the other family", Body: serviceBody(`"clusterIP":"10.0.0.5","ipFamilies":["IPv6"],` + port80), Want: []string{
			"FieldValueInvalid spec.clusterIPs[0]: Invalid value: \"10.0.0.5\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
		{Name: "first address differs", Body: serviceBody(`"clusterIP":"10.0.0.5","clusterIPs":["10.0.0.6"],` + port80), Want: []string{
			"FieldValueInvalid spec.clusterIPs: Invalid value: [\"10.0.0.6\"]: first value must match `clusterIP`"}},
		{Name: "external IP loopback", Body: serviceBody(`"externalIPs":["127.0.0.1"],` + port80), Want: []string{
			`FieldValueInvalid spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{Name: "source ranges", Body: serviceBody(`"loadBalancerSourceRanges":["10.0.0.0/33"],` + port80), Want: []string{
			"FieldValueForbidden spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
			`FieldValueInvalid spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.0/33": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`}},
		{Name: "class without balancer", Body: serviceBody(`"loadBalancerClass":"a/b",` + port80), Want: []string{
			"FieldValueForbidden spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
		{Name: "external name with address", Body: serviceBody(`"type":"ExternalName","externalName":"db.example.","clusterIP":"10.0.0.5"`), Want: []string{
			"FieldValueForbidden spec.clusterIPs: Forbidden: may not be set for ExternalName services"}},
	})
}

func TestServicesKeepTheirAddressThroughUpdates(t *testing.T) {
	before := serviceBody(`"clusterIP":"10.0.0.5","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` + port80)
	resourcetest.Cases(t, otherKinds(), []resourcetest.Case{
		{Name: "another address", Body: before, Change: `{"spec":{"clusterIP":"10.0.0.6"}}`, Want: []string{
			`FieldValueInvalid spec.clusterIPs[0]: Invalid value: ["10.0.0.6"]: may not change once set`}},
		{Name: "another family", Body: before, Change: `{"spec":{"ipFamilies":["IPv6"]}}`, Want: []string{
			`FieldValueInvalid spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set`,
			"FieldValueInvalid spec.clusterIPs[0]: Invalid value: \"10.0.0.5\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
		{Name: "left out", Body: before, Change: `{"spec":{"clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null}}`},
		{Name: "to an external name", Body: before, Change: `{"spec":{"type":"ExternalName","externalName":"db.example"}}`},
		{Name: "status of another type", Body: before, View: "status", Change: `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, Want: []string{
			"FieldValueForbidden status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"}},
	})
}
