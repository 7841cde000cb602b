package apiregistration

import (
	"testing"

	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/millrace/millrace/internal/server/resource/resourcetest"
)

func TestStoredBytesComeBackAsTheSameObject(t *testing.T) { resourcetest.Stored(t, Kinds()) }

func body(name, spec string) string {
	return `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
}

func TestServicesAreRefusedInTheWordsOfKubernetes(t *testing.T) {
	const good = `"group":"a.example","version":"v1","groupPriorityMinimum":10,"versionPriority":10`
	resourcetest.Cases(t, Kinds(), []resourcetest.Case{
		{Name: "good", Body: body("v1.a.example", good)},
		{Name: "name", Body: body("v2.a.example", good), Want: []string{
			"FieldValueInvalid metadata.name: Invalid value: \"v2.a.example\": must be `spec.version+\".\"+spec.group`: \"v1.a.example\""}},
		{Name: "priorities", Body: body("v1.a.example", `"group":"a.example","version":"v1","groupPriorityMinimum":20001`), Want: []string{
			"FieldValueInvalid spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
			"FieldValueInvalid spec.versionPriority: Invalid value: 0: must be positive and less than 1000"}},
		{Name: "local with a bundle", Body: body("v1.a.example", good+`,"caBundle":"eA==","insecureSkipTLSVerify":true`), Want: []string{
			`FieldValueInvalid spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`,
			"FieldValueInvalid spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify"}},
		{Name: "half a service", Body: body("v1.a.example", good+`,"service":{"port":70000}`), Want: []string{
			"FieldValueRequired spec.service.namespace: Required value", "FieldValueRequired spec.service.name: Required value",
			"FieldValueInvalid spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"}},
	})
}

func TestWhatIsServedHereIsAvailableAtOnce(t *testing.T) {
	s := resourcetest.Made(t, Kinds(), body("v1.a.example", `"group":"a.example","version":"v1","groupPriorityMinimum":1,"versionPriority":1`)).(*v1.APIService)
	if got := available(s); got != "True" {
		t.Errorf("available is %s", got)
	}
	s = resourcetest.Made(t, Kinds(), body("v1.a.example", `"group":"a.example","version":"v1","groupPriorityMinimum":1,"versionPriority":1,"service":{"name":"s","namespace":"n"}`)).(*v1.APIService)
	if got := available(s); got != "Unknown" || *s.Spec.Service.Port != 443 {
		t.Errorf("available is %s, at port %d", got, *s.Spec.Service.Port)
	}
}
