package networking

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func body(kind, meta, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"networking.k8s.io/v1","kind":%q,"metadata":{%s},"spec":{%s}}`, kind, meta, spec)
}

const (
	local  = `"name":"o","namespace":"n"`
	global = `"name":"o"`
)

func ingress(path string) string {
	return body("Ingress", local, `"rules":[{"host":"a.example","http":{"paths":[`+path+`]}}]`)
}

func TestIngressesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	const backend = `"backend":{"service":{"name":"s","port":{"number":80}}}`
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "relative path", Body: ingress(`{"path":"a//b/..","pathType":"Exact",` + backend + `}`), Want: []string{
			`FieldValueInvalid spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must be an absolute path`,
			`FieldValueInvalid spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": must not contain '//'`,
			`FieldValueInvalid spec.rules[0].http.paths[0].path: Invalid value: "a//b/..": cannot end with '/..'`}},
		{Name: "no path where the implementation decides", Body: ingress(`{"pathType":"ImplementationSpecific",` + backend + `}`)},
		{Name: "path type", Body: ingress(`{"path":"/","pathType":"Regex",` + backend + `}`), Want: []string{
			`FieldValueNotSupported spec.rules[0].http.paths[0].pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"`}},
		{Name: "no backend", Body: ingress(`{"path":"/","pathType":"Exact","backend":{}}`), Want: []string{
			`FieldValueInvalid spec.rules[0].http.paths[0].backend: Invalid value: "": resource or service backend is required`}},
		{Name: "no port", Body: ingress(`{"path":"/","pathType":"Exact","backend":{"service":{"name":"s"}}}`), Want: []string{
			"FieldValueRequired spec.rules[0].http.paths[0].backend: Required value: port name or number is required"}},
		{Name: "two ports", Body: ingress(`{"path":"/","pathType":"Exact","backend":{"service":{"name":"s","port":{"name":"a","number":1}}}}`), Want: []string{
			`FieldValueInvalid spec.rules[0].http.paths[0].backend: Invalid value: "": cannot set both port name & port number`}},
		{Name: "resource without kind", Body: body("Ingress", local, `"defaultBackend":{"resource":{"kind":"","name":"a/b"}}`), Want: []string{
			"FieldValueRequired spec.defaultBackend.resource.kind: Required value",
			`FieldValueInvalid spec.defaultBackend.resource.name: Invalid value: "a/b": may not contain '/'`}},
		{Name: "class twice", Body: body("Ingress", local+`,"annotations":{"kubernetes.io/ingress.class":"a"}`, `"ingressClassName":"b","defaultBackend":{"service":{"name":"s","port":{"number":80}}}`), Want: []string{
			"FieldValueInvalid annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match `ingressClassName` when both are specified"}},
		{Name: "wildcard", Body: body("Ingress", local, `"rules":[{"host":"*.a.example"}],"tls":[{"hosts":["*.a.example"]}]`)},
		{Name: "controller", Body: body("IngressClass", global, `"controller":"plain"`), Want: []string{
			`FieldValueInvalid spec.controller: Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo")`}},
		{Name: "controller changes", Body: body("IngressClass", global, `"controller":"a.example/c"`), Change: `{"spec":{"controller":"a.example/d"}}`, Want: []string{
			`FieldValueInvalid spec.controller: Invalid value: "a.example/d": field is immutable`}},
		{Name: "parameters of a namespace", Body: body("IngressClass", global, `"controller":"a.example/c","parameters":{"kind":"K","name":"n","scope":"Namespace"}`), Want: []string{
			"FieldValueRequired spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"}},
		{Name: "hostname in the status", Body: body("Ingress", local, `"rules":[{"host":"a.example"}]`), View: "status",
			Change: `{"status":{"loadBalancer":{"ingress":[{"hostname":"192.0.2.1"}]}}}`, Want: []string{
				`FieldValueInvalid status.loadBalancer.ingress[0].hostname: Invalid value: "192.0.2.1": must be a DNS name, not an IP address`}},
	})
}

func policy(ingress string) string {
	return body("NetworkPolicy", local, `"podSelector":{},"ingress":[{`+ingress+`}]`)
}

func TestNetworkPoliciesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "empty peer", Body: policy(`"from":[{}]`), Want: []string{"FieldValueRequired spec.ingress[0].from[0]: Required value: must specify a peer"}},
		{Name: "block and another", Body: policy(`"from":[{"ipBlock":{"cidr":"10.0.0.0/8"},"podSelector":{}}]`), Want: []string{
			"FieldValueForbidden spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"}},
		{Name: "exception outside", Body: policy(`"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["11.0.0.0/16"]}}]`), Want: []string{
			"FieldValueInvalid spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`"}},
		{Name: "end before start", Body: policy(`"ports":[{"port":90,"endPort":80}]`), Want: []string{
			"FieldValueInvalid spec.ingress[0].ports[0].endPort: Invalid value: 90: must be greater than or equal to `port`"}},
		{Name: "end of a name", Body: policy(`"ports":[{"port":"http","endPort":80}]`), Want: []string{
			"FieldValueInvalid spec.ingress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is non-numeric"}},
		{Name: "protocol", Body: policy(`"ports":[{"protocol":"ICMP"}]`), Want: []string{
			`FieldValueNotSupported spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"`}},
		{Name: "policy type", Body: body("NetworkPolicy", local, `"podSelector":{},"policyTypes":["Both"]`), Want: []string{
			`FieldValueNotSupported spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"`}},
	})
}

func TestAddressRangesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "no range", Body: body("ServiceCIDR", global, ``), Want: []string{"FieldValueRequired spec.cidrs: Required value: at least one CIDR required"}},
		{Name: "two of a family", Body: body("ServiceCIDR", global, `"cidrs":["10.0.0.0/24","10.1.0.0/24"]`), Want: []string{
			`FieldValueInvalid spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`}},
		{Name: "second family comes", Body: body("ServiceCIDR", global, `"cidrs":["10.0.0.0/24"]`), Change: `{"spec":{"cidrs":["10.0.0.0/24","fd00::/96"]}}`},
		{Name: "range changes", Body: body("ServiceCIDR", global, `"cidrs":["10.0.0.0/24"]`), Change: `{"spec":{"cidrs":["10.1.0.0/24"]}}`, Want: []string{
			`FieldValueInvalid spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable`}},
		{Name: "address that is none", Body: body("IPAddress", `"name":"fd00::0001"`, `"parentRef":{"resource":"services","name":"s"}`), Want: []string{
			`FieldValueInvalid metadata.name: Invalid value: "fd00::0001": must be in canonical form ("fd00::1")`}},
		{Name: "address of nothing", Body: body("IPAddress", `"name":"10.0.0.1"`, ``), Want: []string{"FieldValueRequired spec.parentRef: Required value"}},
	})
}
