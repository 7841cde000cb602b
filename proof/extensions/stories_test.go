package extensions_test

import (
	"fmt"
	"slices"
)

// story is a list of steps, and the objects to delete after them.
type story struct {
	name         string
	steps, after []step
}

const (
	hooks    = "/apis/admissionregistration.k8s.io/v1/%swebhookconfigurations"
	maps     = "/api/v1/namespaces/default/configmaps"
	policies = "/apis/admissionregistration.k8s.io/v1/%sadmissionpolicies"
	bindings = "/apis/admissionregistration.k8s.io/v1/%sadmissionpolicybindings"
)

// configuration returns a step that creates a webhook configuration for some resource, with further fields.
func configuration(kind, name, behaviour, rule, more string) step {
	return step{"POST", fmt.Sprintf(hooks, kind), fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[{"name":"%s.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
		"clientConfig":{"url":"{HOOK}/%s","caBundle":"{CA}"},"rules":[%s]%s}]}`, name, name, behaviour, rule, more), true}
}

func gone(path string) step { return step{Method: "DELETE", Path: path, Settles: true} }

func rule(group, version, resource string) string {
	return fmt.Sprintf(`{"apiGroups":[%q],"apiVersions":[%q],"resources":[%q],"operations":["*"]}`, group, version, resource)
}

func configMap(name string) step {
	return step{Method: "POST", Path: maps, Body: fmt.Sprintf(`{"metadata":{"name":%q},"data":{"k":"v"}}`, name)}
}

// withHook returns a story with one webhook.
func withHook(name, kind, behaviour, rule, more string, steps ...step) story {
	made := configuration(kind, "h", behaviour, rule, more)
	made.Settles = true
	return story{name: name, steps: append([]step{made}, steps...), after: []step{
		gone(fmt.Sprintf(hooks, kind) + "/h"), {Method: "DELETE", Path: maps + "/c"}}}
}

// withPolicy returns a story with one validating policy.
func withPolicy(name, spec, binding string, steps ...step) story {
	return story{name: name, steps: append([]step{
		{"POST", fmt.Sprintf(policies, "validating"), `{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE","UPDATE"]}]},` + spec + `}}`, true},
		{"POST", fmt.Sprintf(bindings, "validating"), `{"metadata":{"name":"b"},"spec":{"policyName":"p",` + binding + `}}`, true},
	}, steps...), after: []step{
		gone(fmt.Sprintf(bindings, "validating") + "/b"), gone(fmt.Sprintf(policies, "validating") + "/p"), {Method: "DELETE", Path: maps + "/c"}}}
}

func stories() []story {
	onMaps := rule("", "v1", "configmaps")
	const deny = `"validationActions":["Deny"]`
	out := []story{
		withHook("everything about a config map", "validating", "allow", onMaps, "",
			configMap("c"), step{Method: "PATCH", Path: maps + "/c", Body: `{"data":{"k":"w"}}`},
			step{Method: "PUT", Path: maps + "/c?dryRun=All&fieldManager=me", Body: `{"metadata":{"name":"c"},"data":{"k":"x"}}`},
			step{Method: "DELETE", Path: maps + "/c?propagationPolicy=Background"}),
		withHook("a generated name", "validating", "allow", onMaps, "", step{Method: "POST", Path: maps, Body: `{"metadata":{"generateName":"gen-"}}`},
			step{Method: "DELETE", Path: maps + "?labelSelector=none%3Dnone"}),
		withHook("a namespace", "validating", "allow", rule("", "v1", "namespaces"), "", step{Method: "POST", Path: "/api/v1/namespaces?dryRun=All", Body: `{"metadata":{"name":"made"}}`},
			step{Method: "PATCH", Path: "/api/v1/namespaces/default", Body: `{"metadata":{"labels":{"a":"b"}}}`}),
		withHook("a scale", "mutating", "five", rule("apps", "v1", "deployments/scale"), "",
			step{Method: "POST", Path: "/apis/apps/v1/namespaces/default/deployments", Body: `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
			step{Method: "PATCH", Path: "/apis/apps/v1/namespaces/default/deployments/d/scale", Body: `{"spec":{"replicas":2}}`},
			step{Method: "DELETE", Path: "/apis/apps/v1/namespaces/default/deployments/d"}),
		withHook("an older version", "mutating", "label", rule("autoscaling", "v1", "horizontalpodautoscalers"), "",
			step{Method: "POST", Path: "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", Body: `{"metadata":{"name":"a"},"spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`},
			step{Method: "DELETE", Path: "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/a"}),
		withHook("a token", "validating", "deny", rule("", "v1", "serviceaccounts/token"), "",
			step{Method: "POST", Path: "/api/v1/namespaces/default/serviceaccounts", Body: `{"metadata":{"name":"robot"}}`},
			step{Method: "POST", Path: "/api/v1/namespaces/default/serviceaccounts/robot/token", Body: `{"spec":{"audiences":["a"]}}`},
			step{Method: "DELETE", Path: "/api/v1/namespaces/default/serviceaccounts/robot"}),
		withHook("a condition", "validating", "deny", onMaps, `,"matchConditions":[{"name":"n","expression":"object.metadata.name != 'c'"}]`, configMap("c"), configMap("d")),
		withHook("a condition that fails", "validating", "deny", onMaps, `,"matchConditions":[{"name":"n","expression":"object.none == 'c'"}]`, configMap("c")),
		withHook("no side effects known", "validating", "allow", onMaps, `,"failurePolicy":"Ignore"`, configMap("c")),
		{name: "refused configurations", steps: []step{
			configuration("validating", "x", "allow", onMaps, `,"matchConditions":[{"name":"n","expression":"object.none =="}]`),
			configuration("mutating", "x", "allow", onMaps, `,"matchConditions":[{"name":"n","expression":"'a'"}]`),
		}},
		withPolicy("a policy", `"validations":[{"expression":"object.data.k == 'x'"}]`, deny, configMap("c")),
		withPolicy("a message", `"variables":[{"name":"k","expression":"object.data.k"}],"validations":[{"expression":"variables.k == 'x'","messageExpression":"'k is ' + variables.k","reason":"Forbidden"}]`, deny, configMap("c")),
		withPolicy("a warning", `"validations":[{"expression":"false","message":"no"}]`, `"validationActions":["Warn","Audit"]`, configMap("c")),
		withPolicy("an error", `"validations":[{"expression":"object.data.none == 'x'"}]`, deny, configMap("c")),
		withPolicy("an ignored error", `"failurePolicy":"Ignore","validations":[{"expression":"object.data.none == 'x'"}]`, deny, configMap("c")),
		withPolicy("a parameter that is missing", `"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"validations":[{"expression":"params.data.a == 'b'"}]`,
			`"paramRef":{"name":"limit","namespace":"default","parameterNotFoundAction":"Deny"},`+deny, configMap("c")),
		withPolicy("a kind that nobody knows", `"paramKind":{"apiVersion":"example.com/v1","kind":"None"},"validations":[{"expression":"params.data.a == 'b'"}]`,
			`"paramRef":{"name":"limit","parameterNotFoundAction":"Deny"},`+deny, configMap("c")),
		withPolicy("the request", `"validations":[{"expression":"request.options.kind == 'x'","messageExpression":"string(request.kind.kind) + request.resource.resource + request.name + request.namespace + request.operation + string(request.dryRun) + request.options.kind"}]`, deny, configMap("c")),
		withPolicy("the namespace", `"validations":[{"expression":"false","messageExpression":"namespaceObject.metadata.name + namespaceObject.status.phase + string(namespaceObject.spec.finalizers)"}]`, deny, configMap("c")),
		withPolicy("an empty message", `"validations":[{"expression":"false","messageExpression":"'  '"}]`, deny, configMap("c")),
		{name: "refused policies", steps: []step{
			{"POST", fmt.Sprintf(policies, "validating"), `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[{"expression":"object.x +"}]}}`, false},
			{"POST", fmt.Sprintf(policies, "validating"), `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[{"expression":"'text'"}]}}`, false},
			{"POST", fmt.Sprintf(policies, "validating"), `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[{"expression":"params.a == 'b'"}]}}`, false},
			{"POST", fmt.Sprintf(policies, "validating"), `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[{"expression":"true","messageExpression":"1"}],"auditAnnotations":[{"key":"a","valueExpression":"1"}]}}`, false},
			{"POST", fmt.Sprintf(policies, "validating"), `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"variables":[{"name":"a","expression":"none"}],"validations":[{"expression":"true"}]}}`, false},
		}},
		{name: "mutations", steps: []step{
			{"POST", fmt.Sprintf(policies, "mutating"), `{"metadata":{"name":"m"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"mutations":[
				{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}},
				{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels/c', value: object.metadata.labels.a}]"}}]}}`, true},
			{"POST", fmt.Sprintf(bindings, "mutating"), `{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`, true},
			configMap("c"),
		}, after: []step{gone(fmt.Sprintf(bindings, "mutating") + "/m"), gone(fmt.Sprintf(policies, "mutating") + "/m"), {Method: "DELETE", Path: maps + "/c"}}},
		{name: "a mutation that fails", steps: []step{
			{"POST", fmt.Sprintf(policies, "mutating"), `{"metadata":{"name":"m"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"mutations":[
				{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/none/at/all'}]"}}]}}`, true},
			{"POST", fmt.Sprintf(bindings, "mutating"), `{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`, true},
			configMap("c"),
		}, after: []step{gone(fmt.Sprintf(bindings, "mutating") + "/m"), gone(fmt.Sprintf(policies, "mutating") + "/m")}},
	}
	for _, how := range []string{"deny", "wordless", "teapot", "label", "badpath", "badtype", "invalid", "rename", "nonsense", "empty", "wronguid", "nokind", "nopatchtype", "error", "none"} {
		out = append(out, withHook("a webhook that says "+how, "mutating", how, onMaps, "", configMap("c")))
	}
	return slices.Concat(out, hookStories(), policyStories(), mutationStories())
}
